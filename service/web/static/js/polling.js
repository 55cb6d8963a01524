// Looking again and again, as long as somebody looks.
import { Problem } from "./api.js";

/**
 * Call `f` every `pause` milliseconds while the page is seen, and when it is seen again. Who has no key is not asked for one
 * again and again: a refused key ends it. What else goes wrong is told to `onTrouble`, and tried again; `onMended`
 * is called once it goes well again. A slow look takes nothing back that a later one told.
 */
export function repeat(f, pause, onTrouble, onMended = () => {}) {
  let isTroubled = false;
  let begun = 0;
  let told = 0;
  const isLate = (mine) => {
    if (mine < told) return true;
    told = mine;
    return false;
  };
  const look = async () => {
    if (document.visibilityState !== "visible") return;
    const mine = ++begun;
    try {
      await f();
      if (isLate(mine)) return;
      if (isTroubled) onMended();
      isTroubled = false;
    } catch (error) {
      if (isLate(mine)) return;
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
