// The story of a measurement as its events tell it: what is planned, how far it is, and what was read meanwhile.
import { follow } from "../api.js";

const OVER = new Set(["succeeded", "failed", "cancelled"]);

/**
 * Follow a measurement from its first event to its end. `onChange(story)` is called when there is news, at most once a frame;
 * `onOver()` once, at its end. The story is `{ plan, progress, phases, samples, statuses, isBroken }`.
 */
export function followStory(id, { onChange, onOver, signal }) {
  const story = { plan: null, progress: null, phases: [], samples: [], statuses: [], isBroken: false };
  let isDue = false;
  const changed = () => {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      onChange(story);
    });
  };
  const onEvent = ({ kind, data }) => {
    story.isBroken = false;
    TOLD[kind]?.(story, data);
    changed();
    if (kind !== "status" || !OVER.has(data.status)) return false;
    onOver(data.status);
    return true;
  };
  const onTrouble = () => {
    story.isBroken = true;
    changed();
  };
  return follow(`/v1/measurements/${id}/events`, { onEvent, onTrouble, signal });
}

const TOLD = {
  plan: (story, data) => Object.assign(story, { plan: data }),
  progress: (story, data) => {
    story.progress = data;
    if (story.phases.at(-1)?.phase !== data.phase) story.phases.push(data);
  },
  sample: (story, data) => story.samples.push(data),
  status: (story, data) => {
    story.statuses.push(data);
    // Another attempt begins anew: what the one before had read is not its.
    if (data.status === "running" && data.attempt > 1) Object.assign(story, { plan: null, progress: null, phases: [], samples: [] });
  },
};
