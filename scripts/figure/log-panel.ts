/** A curve of a panel, from left to right. */
export interface Curve {
  /** Class of the style sheet that colours it. */
  style: string;
  points: readonly { x: number; y: number }[];
  /** Points that are drawn as dots. */
  marked: readonly number[];
}

/** A place on the horizontal axis that is pointed out. */
export interface Mark {
  x: number;
  style: string;
  label: string;
  /** Where the label stands, if there is room. */
  side: 'left' | 'right';
  /** Lines of text between the top of the panel and the label. */
  row: number;
}

export interface Panel {
  title: string;
  yLabel: string;
  curves: readonly Curve[];
  marks: readonly Mark[];
  xTicks: readonly number[];
  yTicks: readonly number[];
}

export const PANEL = { width: 450, height: 290 } as const;
const PLOT = { left: 62, right: 14, top: 34, bottom: 46 } as const;
const LINE = 16;
/** Room that a label takes beside its mark. */
const LABEL = 195;

/** One diagram with two logarithmic axes as SVG, at (`left`, `top`). Ticks are labelled with their values. */
export function renderPanel(panel: Panel, left: number, top: number): string {
  const { width, height } = PANEL;
  const [x0, x1] = [PLOT.left, width - PLOT.right];
  const [y0, y1] = [height - PLOT.bottom, PLOT.top];
  const xOf = scale(panel.xTicks, x0, x1);
  const yOf = scale(panel.yTicks, y0, y1);
  const parts = [
    `<g transform="translate(${left} ${top})">`,
    text(x0, 20, 'title', panel.title),
    ...panel.yTicks.map((tick) => {
      const y = yOf(tick).toFixed(1);
      const line = `<line class="grid" x1="${x0}" x2="${x1}" y1="${y}" y2="${y}"/>`;
      return line + text(x0 - 7, Number(y) + 4, 'tick end', String(tick));
    }),
    ...panel.xTicks.map((tick) => {
      const x = xOf(tick).toFixed(1);
      const line = `<line class="grid" x1="${x}" x2="${x}" y1="${y0}" y2="${y1}"/>`;
      return line + text(Number(x), y0 + 16, 'tick middle', String(tick));
    }),
    text((x0 + x1) / 2, y0 + 36, 'label middle', 'link rate, Gbit/s'),
    `<g transform="translate(14 ${(y0 + y1) / 2}) rotate(-90)">${text(0, 0, 'label middle', panel.yLabel)}</g>`,
    ...panel.marks.map(({ x, style }) => {
      const at = xOf(x).toFixed(1);
      return `<line class="mark ${style}" x1="${at}" x2="${at}" y1="${y0}" y2="${y1}"/>`;
    }),
    ...panel.marks.map((mark) => renderLabel(mark, xOf(mark.x), x0, y1)),
    ...panel.curves.map((curve) => renderCurve(curve, xOf, yOf)),
    '</g>',
  ];
  return parts.join('\n');
}

export function text(x: number, y: number, style: string, content: string): string {
  return `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" class="${style}">${content}</text>`;
}

function renderLabel(
  { style, label, row, side }: Mark,
  x: number,
  left: number,
  top: number,
): string {
  const isLeft = side === 'left' && x - left > LABEL;
  const classes = `note ${style}-note${isLeft ? ' end' : ''}`;
  return text(x + (isLeft ? -6 : 6), top + 14 + row * LINE, classes, label);
}

function renderCurve(
  { style, points, marked }: Curve,
  xOf: (x: number) => number,
  yOf: (y: number) => number,
): string {
  const at = points.map(({ x, y }) => `${xOf(x).toFixed(1)},${yOf(y).toFixed(1)}`);
  const dots = points
    .filter(({ x }) => marked.includes(x))
    .map(({ x, y }) => {
      return `<circle class="dot ${style}" cx="${xOf(x).toFixed(1)}" cy="${yOf(y).toFixed(1)}" r="3.5"/>`;
    });
  return `<polyline class="curve ${style}" points="${at.join(' ')}"/>${dots.join('')}`;
}

/** Maps the range of `ticks` onto the pixels from `from` to `to`, by logarithm. */
function scale(ticks: readonly number[], from: number, to: number): (value: number) => number {
  const [low, high] = [Math.min(...ticks), Math.max(...ticks)];
  return (value) => from + ((to - from) * Math.log(value / low)) / Math.log(high / low);
}
