// Sliders beside numbers that people try: each step doubles or halves the number that stands in the field.
import { h } from "../dom.js";

const RANGES = {
  "workload.micro_batch_size": [0, 9],
  "workload.sequence_length": [7, 20],
  "workload.num_sequences": [0, 10],
  "workload.prompt_tokens": [5, 17],
};
// Half steps: 1, 1.5, 2, 3, 4, 6, …, of which the fractions are left out.
const PARTS = 2;

/** Put a slider below each field of `form` that has a range; the function that it returns moves them to what the fields say. */
export function addSliders(form) {
  const all = [];
  for (const [name, [low, high]] of Object.entries(RANGES)) {
    const control = form.elements[name];
    const label = control.labels[0].textContent;
    const slider = h("input", { type: "range", class: "slider", min: low * PARTS, max: high * PARTS, step: 1, "aria-label": `${label}, by doubling` });
    const follow = () => {
      const place = Math.log2(Number(control.value || control.placeholder) || 1) * PARTS;
      slider.value = String(Math.round(place));
      slider.setAttribute("aria-valuetext", control.value || control.placeholder || "default");
    };
    slider.addEventListener("input", () => {
      control.value = String(numberAt(Number(slider.value)));
      control.dispatchEvent(new Event("input", { bubbles: true }));
    });
    control.addEventListener("input", follow);
    control.closest(".field").append(slider);
    all.push(follow);
  }
  return () => all.forEach((follow) => follow());
}

function numberAt(place) {
  const whole = 2 ** Math.floor(place / PARTS);
  return place % PARTS === 0 || whole < 2 ? whole : whole * 1.5;
}
