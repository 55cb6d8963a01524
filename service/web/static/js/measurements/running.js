// What is measured now: every job that runs or waits, with its progress as it comes.
import { ask, follow } from "../api.js";
import { fill, h, say } from "../dom.js";
import { percent } from "../format.js";
import { workloadWords } from "../layouts.js";
import { showProblem } from "../notice.js";
import { repeat } from "../polling.js";

const POLL_MS = 4000;
const SHOWN = 12;
// A browser opens six connections to a server that speaks HTTP/1.1; most are left to questions.
const FOLLOWED = 2;
const LIST = `/v1/measurements?limit=${SHOWN}&status=`;

/** Keep `element` up to date; `onOver(id, status)` is called when a job that was shown has ended. */
export function watchRunning(element, { onOver }) {
  const rows = new Map();
  const streams = new Map();
  let shown = "";

  async function poll() {
    const [running, queued] = await Promise.all([ask(`${LIST}running`), ask(`${LIST}queued`)]);
    const jobs = [...running.items, ...queued.items];
    for (const id of [...rows.keys()]) if (!jobs.some((job) => job.id === id)) await over(id);
    for (const job of jobs) row(job).show(job);
    for (const job of running.items.slice(0, FOLLOWED)) stream(job.id);
    draw(jobs, running.next_cursor !== null || queued.next_cursor !== null);
  }

  function row(job) {
    if (!rows.has(job.id)) rows.set(job.id, jobRow(job));
    return rows.get(job.id);
  }

  async function over(id) {
    rows.delete(id);
    streams.get(id)?.abort();
    streams.delete(id);
    const { status, model } = await ask(`/v1/measurements/${id}`);
    say(`The measurement of ${model ?? "an inline model"} has ${status}`);
    onOver(id, status);
  }

  function stream(id) {
    if (streams.has(id) || streams.size >= FOLLOWED) return;
    const stop = new AbortController();
    streams.set(id, stop);
    const onEvent = ({ kind, data }) => {
      if (kind === "progress") rows.get(id)?.progress(data);
      return kind === "status" && data.status !== "queued" && data.status !== "running";
    };
    // Polling goes on, so a stream that is refused costs only its smoothness.
    follow(`/v1/measurements/${id}/events`, { onEvent, signal: stop.signal }).then(poll).catch(() => {}).finally(() => streams.delete(id));
  }

  function draw(jobs, isMore) {
    element.hidden = jobs.length === 0;
    // A list that is built anew takes the focus away from whoever is in it.
    const drawn = `${jobs.map((job) => job.id)} ${isMore}`;
    if (drawn === shown) return;
    shown = drawn;
    fill(
      element,
      h("h2", {}, "Now"),
      h("ul", { class: "plain jobs", "aria-label": "Measurements that run or wait" }, jobs.map((job) => rows.get(job.id).element)),
      isMore && h("p", { class: "muted" }, "More are waiting; filter the table by status to see them."),
    );
  }

  return repeat(poll, POLL_MS, (error) => ((shown = ""), showProblem(element, error)));
}

function jobRow(job) {
  const bar = h("progress", { max: "1", "aria-label": `Progress of ${job.model ?? "an inline model"}` });
  const phase = h("span", { class: "muted job-phase" });
  const share = h("span", { class: "number job-share" });
  const question = job.question === null ? (job.task ?? "") : workloadWords(job.question.workload);
  const element = h(
    "li",
    {},
    h("span", {}, h("a", { href: `/measurements/${job.id}` }, job.model ?? "inline model"), " ", h("span", { class: "muted" }, `${question} · ${job.device}`)),
    bar,
    share,
    phase,
  );
  const put = (progress, text, isRunning) => {
    bar.value = progress;
    element.classList.toggle("is-waiting", !isRunning);
    share.textContent = isRunning ? percent(progress, 0) : "queued";
    phase.textContent = text;
  };
  return {
    element,
    show: (now) => put(now.progress, now.phase, now.status === "running"),
    progress: (data) => put(data.progress, [data.phase, data.reading].filter(Boolean).join(" · "), true),
  };
}
