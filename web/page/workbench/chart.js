/** Small plots as SVG, each with its numbers in words beside it or in a table: a bar of parts, and bars side by side. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} name
 * @param {Record<string, string | number>} attributes
 * @param {(Node | string)[]} [children]
 */
function svg(name, attributes, children = []) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.append(...children);
  return made;
}

/** @param {string} label @param {number} height @param {Element[]} marks */
function frame(label, height, marks) {
  return svg("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label, class: "chart" }, marks);
}

/**
 * One bar of parts; what each is stands in the label, and in the caller's legend.
 * @param {{name: string, value: number, className: string}[]} parts
 * @param {string} label
 */
export function stacked(parts, label) {
  const total = parts.reduce((sum, { value }) => sum + value, 0) || 1;
  let at = 0;
  const marks = parts.map(({ name, value, className }) => {
    const width = (100 * value) / total;
    const mark = svg("rect", { x: at, y: 0, width, height: 6, class: className }, [svg("title", {}, [`${name}: ${value}`])]);
    at += width;
    return mark;
  });
  return frame(label, 6, marks);
}

/**
 * A bar for each row, as high as its value.
 * @param {{name: string, value: number, className?: string}[]} rows
 * @param {string} label
 * @param {(value: number) => string} [said]
 */
export function bars(rows, label, said = String) {
  const most = Math.max(...rows.map(({ value }) => value), Number.MIN_VALUE);
  const step = 100 / Math.max(rows.length, 1);
  const marks = rows.map(({ name, value, className = "part-0" }, index) => {
    const height = Math.max((38 * value) / most, 0.3);
    const box = { x: index * step, y: 40 - height, width: Math.max(step * 0.8, 0.05), height, class: className };
    return svg("rect", box, [svg("title", {}, [`${name}: ${said(value)}`])]);
  });
  return frame(label, 40, marks);
}
