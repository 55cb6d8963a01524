// The quantities of a measurement's row: what was measured, what was predicted before and after calibration, and how far off.
import { gib, seconds } from "../format.js";

export const QUANTITIES = {
  allocated: { label: "allocated bytes", unit: "_bytes", show: gib },
  reserved: { label: "reserved bytes", unit: "_bytes", show: gib },
  device: { label: "device bytes", unit: "_bytes", show: gib },
  step_time: { label: "step time", unit: "_s", show: seconds },
};

/**
 * Return one quantity of a row: `{ name, measured, predicted, low, high, error, isInside }`; `answer` is "predicted" (analytic)
 * or "calibrated". `null` where it was not measured; `isInside` is null where the answer has no interval.
 */
export function reading(row, name, answer = "predicted") {
  const { unit } = QUANTITIES[name];
  const measured = row[`${name}${unit}`];
  if (measured === null || measured === undefined) return null;
  const predicted = row[`${answer}_${name}${unit}`];
  const low = row[`${answer}_${name}_low${unit}`];
  const high = row[`${answer}_${name}_high${unit}`];
  const isInside = low === null || high === null ? null : measured >= low && measured <= high;
  return { name, measured, predicted, low, high, error: predicted === null ? null : predicted / measured - 1, isInside };
}

/** Return the first quantity that was both measured and predicted, else the first that was measured, else null. */
export function bestReading(row, answer) {
  const found = Object.keys(QUANTITIES).map((name) => reading(row, name, answer)).filter((one) => one !== null);
  return found.find((one) => one.predicted !== null) ?? found[0] ?? null;
}

/** The class of a tag for an error: good within the interval, bad outside of it, plain where there is none. */
export function errorClass({ isInside }) {
  return isInside === null ? "" : isInside ? "is-good" : "is-bad";
}

/** What ran, of a flat row: "train · lora · bf16 · 4 × 2048". */
export function rowWords(row) {
  const size = row.batch === null ? null : `${row.batch} × ${row.sequence_length}`;
  return [row.task, row.task === "serve" ? row.framework : row.method, row.precision, size].filter(Boolean).join(" · ");
}

export const STATUS_CLASSES = { succeeded: "is-good", failed: "is-bad", cancelled: "", running: "is-running", queued: "is-warn" };
