// Somebody else on the network, who answers everybody and remembers what was asked: whatever gets out of a page comes here.
import http from "node:http";

export async function elsewhere(act) {
  const heard = new Set();
  const types = { js: "text/javascript", events: "text/event-stream", css: "text/css" };
  const hear = (request) => {
    const name = new URL(request.url, "http://x").pathname.slice(1).split(".")[0];
    if (name !== "favicon") heard.add(name); // the browser's own wish, for a page of ours
  };
  const server = http.createServer((request, response) => {
    hear(request);
    response.writeHead(200, { "Access-Control-Allow-Origin": "*", "Content-Type": types[request.url.split(".")[1]] ?? "text/plain" });
    response.end(request.url.endsWith(".events") ? "data: 1\n\n" : "");
  });
  server.on("upgrade", (request, socket) => {
    hear(request);
    socket.destroy();
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  try {
    return await act(`http://127.0.0.1:${server.address().port}`, heard);
  } finally {
    server.closeAllConnections();
    server.close();
  }
}
