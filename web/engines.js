// The engines that this server has, and how strong each is: what the control for isolation offers.
import * as api from "./api.js";

export const AUTO = { id: "auto", name: "Auto", hint: "the server takes one that suits the code, and says why" };

// In order of strength, as the server has it.
const KNOWN = [
  { id: "process", name: "Process", hint: "no namespaces; where containers cannot be made", sessions: true },
  { id: "wasm", name: "Wasm", hint: "WebAssembly: Python and JavaScript without packages, and modules", sessions: false },
  { id: "container", name: "Container", hint: "namespaces, a root of its own, every layer", sessions: true },
  { id: "gvisor", name: "gVisor", hint: "a kernel of its own, in user space", sessions: true },
];

export const BEFORE_IT_IS_KNOWN = { normal: "container", engines: KNOWN.filter(({ id }) => id === "container" || id === "process") };

// {normal, engines}: those that work, and that the operator allows.
export async function askForEngines() {
  const told = await api.get("/v1/doctor", { asks: false });
  const least = KNOWN.findIndex(({ id }) => id === told.minimum);
  const usable = new Set(told.engines.filter((engine) => engine.usable).map((engine) => engine.isolation));
  return { normal: told.default, engines: KNOWN.filter(({ id }, at) => usable.has(id) && at >= least) };
}
