// The words of nodes, drawn so that they can be read on a light and a dark page.
import type { Settings } from "sigma/settings";
import type { NodeDisplayData, PartialButFor } from "sigma/types";
import { readTheme } from "./colours";

type Data = PartialButFor<NodeDisplayData, "x" | "y" | "size" | "label" | "color">;

export function drawLabel(context: CanvasRenderingContext2D, data: Data, settings: Settings): void {
  if (!data.label) return;
  const theme = readTheme();
  context.font = `500 ${settings.labelSize}px ${settings.labelFont}`;
  context.textAlign = "center";
  context.lineWidth = 4;
  context.lineJoin = "round";
  context.strokeStyle = theme.paper;
  context.fillStyle = theme.ink;
  const y = data.y + data.size + settings.labelSize + 2;
  context.strokeText(data.label, data.x, y);
  context.fillText(data.label, data.x, y);
  context.textAlign = "start";
}

/** A ring around a node below the pointer or selected. */
export function drawHover(context: CanvasRenderingContext2D, data: Data, settings: Settings): void {
  const theme = readTheme();
  context.beginPath();
  context.arc(data.x, data.y, data.size + 4, 0, Math.PI * 2);
  context.lineWidth = 3;
  context.strokeStyle = theme.accent;
  context.stroke();
  drawLabel(context, data, settings);
}
