// Runs before the page is painted: the theme that the dashboard's readers chose, or that of their system.
"use strict";
(() => {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const show = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("headroom.theme");
    } catch {
      // Without storage nobody has chosen.
    }
    document.documentElement.classList.toggle("dark-mode", chosen === "dark" || (chosen !== "light" && dark.matches));
  };
  show();
  dark.addEventListener("change", show);
})();
