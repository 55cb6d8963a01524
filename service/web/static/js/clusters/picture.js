// The picture of a pool: a tile for each node, a cell for each GPU, gaps between NVLink islands. Drawn, since a pool may have
// thousands of nodes; the table beside it says the same to those who do not see it or have no mouse.
import { css } from "../charts.js";
import { fill, h } from "../dom.js";
import { nodeWords } from "./nodes.js";

const GAP = 2;
const ISLAND_GAP = 6;
const NODE_GAP = 14;
const ROW_GAP = 10;
const LABEL = 15;
const IN_A_ROW = 8;
const SIZES = [19, 15, 12, 10, 6];
const FEWEST_CELLS = 200;
const FEW_CELLS = 700;
const MANY_CELLS = 6000;
const LABELLED_NODES = 160;
// Browsers draw nothing on a canvas of 2^15 pixels (Firefox) or 2^16 (Chromium) and more.
const MOST_PIXELS = 2 ** 15 - 1;
const pictures = new Set();

/**
 * Put the picture of a pool into `element`; `onPick(node)` is called for a node that is clicked.
 * Returns `{ show(pool, nodes, marks), canvas }`, where `marks` maps a node's name to the cells that a plan takes.
 */
export function makePicture(element, { onPick }) {
  const canvas = h("canvas", { class: "fleet", role: "img" });
  const tip = h("div", { class: "tip", hidden: true });
  const ring = h("div", { class: "ring", hidden: true });
  fill(element, canvas, ring, tip);
  const picture = { canvas, places: [], shown: null };
  picture.draw = () => picture.shown !== null && element.clientWidth > 0 && draw(picture, element.clientWidth);
  picture.show = (pool, nodes, marks = new Map()) => {
    picture.shown = { pool, nodes, marks };
    canvas.setAttribute("aria-label", `Pool ${pool.name}, ${pool.free_gpus} of ${pool.total_gpus} GPUs free; the table of nodes says which`);
    picture.draw();
  };
  canvas.addEventListener("pointermove", (event) => point(picture, tip, ring, at(picture, event)));
  canvas.addEventListener("pointerleave", () => point(picture, tip, ring, null));
  canvas.addEventListener("click", (event) => {
    const place = at(picture, event);
    if (place !== null) onPick(place.node);
  });
  pictures.add(picture);
  let width = 0;
  new ResizeObserver(([entry]) => {
    if (entry.contentRect.width === width) return;
    width = entry.contentRect.width;
    picture.draw();
  }).observe(element);
  return picture;
}

/** Return where everything goes: `{ size, width, height, places: [{ node, x, y }], isLabelled, tile }`. Pure, and tested. */
export function arrange(pool, nodes, room) {
  const size = sizeOf(pool, nodes.length, room);
  const isLabelled = nodes.length <= LABELLED_NODES;
  const across = Math.min(pool.gpus_per_node, IN_A_ROW);
  const spot = (index) => {
    const column = index % across;
    const island = pool.nvlink_island_size ?? pool.gpus_per_node;
    return { x: column * (size + GAP) + Math.floor(column / island) * ISLAND_GAP, y: Math.floor(index / across) * (size + GAP) };
  };
  const tile = { width: spot(across - 1).x + size, height: spot(pool.gpus_per_node - 1).y + size + (isLabelled ? LABEL : 0) };
  const gap = size > 6 ? NODE_GAP : 7;
  const columns = Math.max(1, Math.floor((room + gap) / (tile.width + gap)));
  const places = nodes.map((node, index) => ({
    node,
    x: (index % columns) * (tile.width + gap),
    y: Math.floor(index / columns) * (tile.height + (size > 6 ? ROW_GAP : 5)),
  }));
  const height = places.length === 0 ? 0 : places.at(-1).y + tile.height;
  return { size, spot, tile, places, isLabelled, width: Math.min(room, columns * (tile.width + gap)), height: height + 2 };
}

/** The more there are, the smaller; and at least two nodes go side by side, also on a phone. */
function sizeOf(pool, numNodes, room) {
  const cells = numNodes * pool.gpus_per_node;
  const most = cells <= FEWEST_CELLS ? 19 : cells <= FEW_CELLS ? 15 : cells <= MANY_CELLS ? 10 : 6;
  const across = Math.min(pool.gpus_per_node, IN_A_ROW);
  const fitting = SIZES.find((size) => size <= most && 2 * across * (size + GAP) + 2 * ISLAND_GAP + NODE_GAP <= room);
  return fitting ?? SIZES.at(-1);
}

function draw(picture, room) {
  const { pool, nodes, marks } = picture.shown;
  const plan = arrange(pool, nodes, room);
  picture.plan = plan;
  const scale = Math.min(window.devicePixelRatio || 1, MOST_PIXELS / Math.max(plan.height, room));
  picture.canvas.width = Math.ceil(room * scale);
  picture.canvas.height = Math.ceil(plan.height * scale);
  picture.canvas.style.height = `${plan.height}px`;
  const pen = picture.canvas.getContext("2d");
  pen.scale(scale, scale);
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  pen.textBaseline = "top";
  const ink = inks(pen);
  for (const place of plan.places) drawNode(pen, ink, plan, place, marks);
}

function drawNode(pen, ink, plan, { node, x, y }, marks) {
  const marked = marks.get(node.name);
  pen.globalAlpha = marks.size > 0 && marked === undefined ? 0.35 : 1;
  if (plan.isLabelled) {
    pen.fillStyle = marked === undefined ? ink.label : ink.strong;
    pen.fillText(fitting(pen, node.name, plan.tile.width), x, y);
  }
  const top = y + (plan.isLabelled ? LABEL : 0);
  node.cells.forEach((cell, index) => {
    const spot = plan.spot(index);
    const mark = marked?.get(index);
    drawCell(pen, ink, mark === undefined ? cell.state : "planned", x + spot.x, top + spot.y, plan.size);
  });
  pen.globalAlpha = 1;
}

function drawCell(pen, ink, state, x, y, size) {
  const { fill: paint, line } = ink[state];
  if (paint !== null) {
    pen.fillStyle = paint;
    pen.fillRect(x, y, size, size);
  }
  pen.strokeStyle = line;
  pen.lineWidth = state === "planned" && size > 6 ? 2 : 1;
  pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  if (state === "sliced" && size > 6) for (const part of [1, 2]) pen.strokeRect(x + 0.5, y + 0.5 + Math.round((part * size) / 3), size - 1, 0);
  if (state === "drained" && size > 6) {
    pen.beginPath();
    pen.moveTo(x + 3, y + 3);
    pen.lineTo(x + size - 3, y + size - 3);
    pen.moveTo(x + size - 3, y + 3);
    pen.lineTo(x + 3, y + size - 3);
    pen.stroke();
  }
}

/** Each state has a colour and a texture of its own: hollow, full, hatched, barred, crossed. */
function inks(pen) {
  return {
    label: css("--muted"),
    strong: css("--text"),
    free: { fill: css("--good-soft"), line: css("--good") },
    used: { fill: css("--fleet-used"), line: css("--fleet-used") },
    reserved: { fill: hatch(pen, css("--fleet-reserved")), line: css("--fleet-reserved") },
    sliced: { fill: null, line: css("--fleet-sliced") },
    drained: { fill: null, line: css("--line-strong") },
    planned: { fill: css("--accent"), line: css("--text") },
  };
}

function hatch(pen, colour) {
  const tile = h("canvas", { width: 5, height: 5 });
  const small = tile.getContext("2d");
  small.strokeStyle = colour;
  small.lineWidth = 1.6;
  for (const shift of [-5, 0, 5]) {
    small.beginPath();
    small.moveTo(shift, 5);
    small.lineTo(shift + 5, 0);
    small.stroke();
  }
  return pen.createPattern(tile, "repeat");
}

function fitting(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let short = text;
  while (short.length > 1 && pen.measureText(`…${short}`).width > width) short = short.slice(1);
  return `…${short}`;
}

function at(picture, event) {
  if (!picture.plan) return null;
  const { tile, places } = picture.plan;
  const x = event.offsetX;
  const y = event.offsetY;
  return places.find((place) => x >= place.x && x <= place.x + tile.width && y >= place.y && y <= place.y + tile.height) ?? null;
}

function point(picture, tip, ring, place) {
  tip.hidden = place === null;
  ring.hidden = place === null;
  picture.canvas.style.cursor = place === null ? "" : "pointer";
  if (place === null) return;
  const { tile } = picture.plan;
  tip.textContent = nodeWords(place.node);
  Object.assign(ring.style, { left: `${place.x - 4}px`, top: `${place.y - 3}px`, width: `${tile.width + 8}px`, height: `${tile.height + 6}px` });
  const left = Math.min(place.x, Math.max(0, picture.canvas.clientWidth - tip.offsetWidth));
  Object.assign(tip.style, { left: `${left}px`, top: `${place.y + tile.height + 8}px` });
}

function redraw() {
  for (const picture of pictures) {
    if (picture.canvas.isConnected) picture.draw();
    else pictures.delete(picture);
  }
}

document.addEventListener("headroom:theme", redraw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
