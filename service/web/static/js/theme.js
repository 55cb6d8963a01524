// Runs before the page is painted, so that a dark page never flashes white; a classic script for that reason.
"use strict";
(() => {
  const stored = (() => {
    try {
      return localStorage.getItem("headroom.theme");
    } catch {
      return null;
    }
  })();
  if (stored === "light" || stored === "dark") document.documentElement.dataset.theme = stored;
})();
