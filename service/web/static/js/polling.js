// Looking again and again, as long as somebody looks.
import { Problem } from "./api.js";

/**
 * Call `f` every `pause` milliseconds while the page is seen, and when it is seen again. Who has no key is not asked for one
 * again and again: a refused key ends it. What else goes wrong is told to `onTrouble`, and tried again; `onMended`
 * is called once it goes well again.
 */
export function repeat(f, pause, onTrouble, onMended = () => {}) {
  let isTroubled = false;
  const look = async () => {
    if (document.visibilityState !== "visible") return;
    try {
      await f();
      if (isTroubled) onMended();
      isTroubled = false;
    } catch (error) {
      isTroubled = true;
      onTrouble(error);
      if (error instanceof Problem && (error.status === 401 || error.status === 403)) stop();
    }
  };
  const timer = setInterval(look, pause);
  const stop = () => {
    clearInterval(timer);
    document.removeEventListener("visibilitychange", look);
  };
  document.addEventListener("visibilitychange", look);
  return look();
}
