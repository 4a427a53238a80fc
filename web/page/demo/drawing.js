/** The demo's canvas: one shape a call, each at the next free place of a grid. Refuses colours that CSS does not know. */

import { byId } from "../ui.js";

const canvas = /** @type {HTMLCanvasElement} */ (byId("demo-canvas"));
const said = byId("demo-drawn");
/** Half the width of a shape, in the canvas's own pixels. @type {Record<string, number>} */
const SIZES = { small: 16, medium: 30, big: 48 };
const COLUMNS = 4;
const CELL = 100;
/** @type {string[]} what is on it, for those who cannot see it */
let drawn = [];

/** @type {Record<string, (path: CanvasRenderingContext2D, r: number) => void>} */
const SHAPES = {
  circle: (path, r) => path.arc(0, 0, r, 0, 2 * Math.PI),
  square: (path, r) => path.rect(-r, -r, 2 * r, 2 * r),
  triangle: (path, r) => corners(path, 3, () => r),
  star: (path, r) => corners(path, 10, (i) => (i % 2 ? r * 0.45 : r)),
  line: (path, r) => {
    path.moveTo(-r, r);
    path.lineTo(r, -r);
  },
};

/** @param {CanvasRenderingContext2D} path @param {number} count @param {(i: number) => number} radius */
function corners(path, count, radius) {
  for (let i = 0; i < count; i++) {
    const angle = (2 * Math.PI * i) / count - Math.PI / 2;
    path.lineTo(radius(i) * Math.cos(angle), radius(i) * Math.sin(angle));
  }
  path.closePath();
}

export function wipe() {
  canvas.getContext("2d")?.clearRect(0, 0, canvas.width, canvas.height);
  drawn = [];
  said.textContent = "The canvas is empty.";
}

/** @param {string} shape @param {string} color @param {string} size */
export function draw(shape, color, size) {
  const known = color.trim().toLowerCase().replaceAll(" ", "");
  if (!CSS.supports("color", known)) throw new Error(`no colour ${JSON.stringify(color)}`);
  const path = canvas.getContext("2d");
  if (!path) throw new Error("this browser draws nothing");
  const place = drawn.length % (COLUMNS * Math.floor(canvas.height / CELL));
  path.save();
  path.translate((place % COLUMNS) * CELL + CELL / 2, Math.floor(place / COLUMNS) * CELL + CELL / 2);
  path.beginPath();
  path.fillStyle = path.strokeStyle = known;
  path.lineWidth = 6;
  SHAPES[shape](path, SIZES[size] ?? SIZES.medium);
  if (shape === "line") path.stroke();
  else path.fill();
  path.restore();
  drawn.push(`a ${size} ${known} ${shape}`);
  said.textContent = `Drawn: ${drawn.join(", ")}.`;
  return { drawn: `${size} ${known} ${shape}`, shapes: drawn.length };
}
