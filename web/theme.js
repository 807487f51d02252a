// Loaded before anything is drawn, so that the page never flashes in the wrong colours. Not a module: modules wait.
"use strict";
(() => {
  const wanted = localStorage.getItem("cloche-theme");
  if (wanted === "light" || wanted === "dark") document.documentElement.dataset.theme = wanted;
})();
