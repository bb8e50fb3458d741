// A picture on the screen: sigma draws, the worker lays out, the keyboard walks from node to node.
import { createEdgeCurveProgram, indexParallelEdgesIndex } from "@sigma/edge-curve";
import { MultiDirectedGraph } from "graphology";
import { useEffect, useRef, useState } from "preact/hooks";
import Sigma from "sigma";
import { createEdgeArrowProgram } from "sigma/rendering";
import { SIGNS, Button, Icon, showMarks } from "../ui/parts";
import { isDark, readTheme, type Theme } from "./colours";
import { drawHover, drawLabel } from "./labels";
import { startLayout, type Layout } from "./layout";
import { countElements, MOST_ELEMENTS, type DrawnEdge, type DrawnNode, type Picture } from "./picture";

export interface Look {
  node: (node: DrawnNode, theme: Theme) => { color: string; size: number };
  /** A quiet edge is drawn without its type. */
  edge: (edge: DrawnEdge, theme: Theme) => { color: string; size: number; isQuiet?: boolean };
}

interface Props {
  picture: Picture;
  look: Look;
  label: string;
  selected: string | null;
  onSelect: (key: string | null) => void;
  onOpen?: (key: string) => void;
  pinned?: ReadonlySet<string>;
  onPin?: (key: string, isPinned: boolean) => void;
  onHide?: (key: string) => void;
  seen?: ReadonlySet<string>;
}

type Holder = HTMLDivElement & { sigma?: Sigma };
const NONE: ReadonlySet<string> = new Set();
const LABELLED_EDGES = 40;
/** Of so few nodes every one is named, also where names touch. */
const NAMED_NODES = 80;
const HEAD = { lengthToThicknessRatio: 5, widenessToThicknessRatio: 3.4 };

export function Canvas(props: Props) {
  const { picture, look, selected, pinned = NONE } = props;
  const holder = useRef<Holder>(null);
  const drawing = useRef<{ graph: MultiDirectedGraph; sigma: Sigma; layout: Layout } | null>(null);
  const now = useRef(props);
  now.current = props;
  const [isMoving, setMoving] = useState(false);
  const isTooLarge = countElements(picture) > MOST_ELEMENTS;
  const dark = isDark.value;

  useEffect(() => {
    const graph = new MultiDirectedGraph();
    const sigma = buildSigma(graph, holder.current as Holder, now);
    const layout = startLayout();
    drawing.current = { graph, sigma, layout };
    (holder.current as Holder).sigma = sigma;
    return () => {
      layout.end();
      sigma.kill();
      drawing.current = null;
    };
  }, []);

  useEffect(() => {
    if (!drawing.current || isTooLarge) return;
    const { graph, sigma } = drawing.current;
    const isFresh = graph.order === 0;
    const isNew = apply(graph, picture);
    dress(graph, picture, look);
    sigma.setSetting("renderEdgeLabels", picture.edges.size <= LABELLED_EDGES);
    sigma.setSetting("labelRenderedSizeThreshold", picture.nodes.size > 150 ? 7 : 0);
    sigma.setSetting("enableEdgeEvents", picture.edges.size < 3000);
    sigma.scheduleRefresh();
    if (isNew && graph.order > 0) arrange(isFresh);
  }, [picture, isTooLarge]);

  useEffect(() => {
    if (!drawing.current) return;
    const { graph, sigma } = drawing.current;
    const theme = readTheme();
    sigma.setSetting("labelColor", { color: theme.ink });
    sigma.setSetting("edgeLabelColor", { color: theme.ink });
    if (!isTooLarge) dress(graph, picture, look);
    sigma.refresh();
  }, [look, dark, selected]);

  function arrange(isFresh: boolean) {
    if (!drawing.current) return;
    const { graph, sigma, layout } = drawing.current;
    setMoving(true);
    const { width, height } = sigma.getDimensions();
    layout.start(graph, now.current.pinned ?? NONE, Math.min(2, Math.max(1, width / height)), (isLast) => {
      if (isLast && isFresh && width > height) lieDown(graph);
      sigma.scheduleRefresh();
      if (isLast) setMoving(false);
    });
  }

  function zoom(factor: number) {
    const camera = drawing.current?.sigma.getCamera();
    if (factor === 0) void camera?.animatedReset({ duration: 200 });
    else void camera?.animate({ ratio: camera.ratio * factor }, { duration: 150 });
  }

  function onKeyDown(event: KeyboardEvent) {
    const key = event.key;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const moves: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const move = moves[key];
    if (move && drawing.current) props.onSelect(walk(drawing.current.sigma, selected, move) ?? selected);
    else if (key === "+" || key === "=") zoom(0.7);
    else if (key === "-") zoom(1.4);
    else if (key === "0") zoom(0);
    else if (key === "Escape") props.onSelect(null);
    else if (key === "Enter" && selected) props.onOpen?.(selected);
    else if (key === "p" && selected && props.onPin) props.onPin(selected, !pinned.has(selected));
    else if (key === "Delete" && selected && props.onHide) props.onHide(selected);
    else return;
    event.preventDefault();
  }

  const chosen = selected ? (picture.nodes.get(selected) ?? picture.edges.get(selected)) : undefined;
  return (
    <div class="canvas" data-nodes={picture.nodes.size} data-edges={picture.edges.size} data-moving={isMoving}>
      <div
        ref={holder}
        class="stage"
        role="application"
        tabIndex={0}
        aria-label={`${props.label}: ${picture.nodes.size} nodes, ${picture.edges.size} edges. Arrow keys walk, Enter opens, plus and minus zoom.`}
        onKeyDown={onKeyDown}
      />
      <div class="tools" role="toolbar" aria-label="Picture">
        <Button icon="plus" label="Zoom in" onClick={() => zoom(0.7)} />
        <Button icon="minus" label="Zoom out" onClick={() => zoom(1.4)} />
        <Button icon="fit" label="Show all" onClick={() => zoom(0)} />
        <Button icon="shuffle" label="Arrange again" onClick={() => arrange(false)} isPressed={isMoving} />
      </div>
      <p class="visually-hidden" role="status">
        {chosen ? `${chosen.type} ${showMarks(chosen.id)} ${chosen.change ?? ""}` : ""}
      </p>
      {isTooLarge && (
        <div class="over">
          <Icon name="picture" />
          <p>
            {countElements(picture).toLocaleString("en")} elements are too many for a picture that can be read. Narrow it to at most{" "}
            {MOST_ELEMENTS.toLocaleString("en")}; the table has all of them.
          </p>
        </div>
      )}
      {countElements(picture) === 0 && <div class="over">Nothing to draw.</div>}
    </div>
  );
}

function buildSigma(graph: MultiDirectedGraph, holder: HTMLElement, now: { current: Props }): Sigma {
  const theme = readTheme();
  const sigma = new Sigma(graph, holder, {
    allowInvalidContainer: true,
    defaultEdgeType: "arrow",
    edgeProgramClasses: { arrow: createEdgeArrowProgram(HEAD), curved: createEdgeCurveProgram({ arrowHead: { extremity: "target", ...HEAD } }) },
    labelColor: { color: theme.ink },
    edgeLabelColor: { color: theme.ink },
    labelFont: "system-ui, sans-serif",
    labelSize: 12,
    edgeLabelSize: 10,
    labelDensity: 2,
    stagePadding: 64,
    minCameraRatio: 0.02,
    maxCameraRatio: 6,
    zIndex: true,
    defaultDrawNodeLabel: drawLabel,
    defaultDrawNodeHover: drawHover,
    nodeReducer: (key, data) => {
      const { selected, seen } = now.current;
      if (key === selected) return { ...data, highlighted: true, zIndex: 3, forceLabel: true };
      return seen && seen.size > 0 && !seen.has(key) ? { ...data, color: readTheme().quiet, label: "" } : data;
    },
    edgeReducer: (key, data) => (key === now.current.selected ? { ...data, size: data.size + 2.5, color: readTheme().accent, zIndex: 2 } : data),
  });
  sigma.on("clickNode", ({ node }) => now.current.onSelect(node));
  sigma.on("doubleClickNode", ({ node, preventSigmaDefault }) => {
    preventSigmaDefault();
    now.current.onOpen?.(node);
  });
  sigma.on("clickEdge", ({ edge }) => now.current.onSelect(edge));
  sigma.on("clickStage", () => now.current.onSelect(null));
  drag(sigma, graph, now);
  return sigma;
}

/** A node that somebody moves stays where it was put. */
function drag(sigma: Sigma, graph: MultiDirectedGraph, now: { current: Props }): void {
  let held: string | null = null;
  let hasMoved = false;
  sigma.on("downNode", ({ node }) => {
    held = node;
    hasMoved = false;
    if (!sigma.getCustomBBox()) sigma.setCustomBBox(sigma.getBBox());
  });
  sigma.on("moveBody", ({ event }) => {
    if (!held) return;
    hasMoved = true;
    const at = sigma.viewportToGraph(event);
    graph.mergeNodeAttributes(held, { x: at.x, y: at.y });
    event.preventSigmaDefault();
    event.original.preventDefault();
  });
  const drop = () => {
    if (held && hasMoved) now.current.onPin?.(held, true);
    if (held) sigma.setCustomBBox(null);
    held = null;
  };
  sigma.on("upNode", drop);
  sigma.on("upStage", drop);
}

/** Bring the graph to the picture's elements; what stays keeps its place. Return whether anything is new. */
function apply(graph: MultiDirectedGraph, picture: Picture): boolean {
  for (const key of graph.edges()) if (!picture.edges.has(key)) graph.dropEdge(key);
  for (const key of graph.nodes()) if (!picture.nodes.has(key)) graph.dropNode(key);
  let isNew = false;
  let place = graph.order;
  const anchors = new Map<string, string>();
  for (const edge of picture.edges.values()) {
    anchors.set(edge.from, edge.to);
    anchors.set(edge.to, edge.from);
  }
  for (const key of picture.nodes.keys()) {
    if (graph.hasNode(key)) continue;
    isNew = true;
    graph.addNode(key, firstPlace(graph, anchors.get(key), place));
    place += 1;
  }
  for (const [key, edge] of picture.edges) {
    if (graph.hasEdge(key)) continue;
    isNew = true;
    graph.addEdgeWithKey(key, edge.from, edge.to, {});
  }
  indexParallelEdgesIndex(graph, { edgeIndexAttribute: "lane", edgeMinIndexAttribute: "firstLane", edgeMaxIndexAttribute: "lastLane" });
  return isNew;
}

/** Beside a neighbour that has a place; otherwise on a sunflower spiral, the same every time. */
function firstPlace(graph: MultiDirectedGraph, neighbour: string | undefined, place: number): { x: number; y: number } {
  const angle = place * 2.399963;
  if (neighbour !== undefined && graph.hasNode(neighbour)) {
    const { x, y } = graph.getNodeAttributes(neighbour) as { x: number; y: number };
    return { x: x + Math.cos(angle) * 8, y: y + Math.sin(angle) * 8 };
  }
  const radius = 10 * Math.sqrt(place + 1);
  return { x: Math.cos(angle) * radius, y: Math.sin(angle) * radius };
}

/** Turn a picture so that its longest extent is across, which a screen has more of. */
function lieDown(graph: MultiDirectedGraph): void {
  let [x, y, xx, xy, yy] = [0, 0, 0, 0, 0];
  graph.forEachNode((_, at) => ((x += at.x as number), (y += at.y as number)));
  x /= graph.order;
  y /= graph.order;
  graph.forEachNode((_, at) => {
    const [dx, dy] = [(at.x as number) - x, (at.y as number) - y];
    xx += dx * dx;
    xy += dx * dy;
    yy += dy * dy;
  });
  const angle = -Math.atan2(2 * xy, xx - yy) / 2;
  const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
  graph.forEachNode((_, at) => {
    const [dx, dy] = [(at.x as number) - x, (at.y as number) - y];
    at.x = dx * cos - dy * sin;
    at.y = dx * sin + dy * cos;
  });
}

/** Give every element its colour, size and words: in place, without an event for each. */
function dress(graph: MultiDirectedGraph, picture: Picture, look: Look): void {
  const theme = readTheme();
  graph.forEachNode((key, attributes) => {
    const node = picture.nodes.get(key);
    if (!node) return;
    const sign = node.change ? `${SIGNS[node.change]} ` : "";
    Object.assign(attributes, look.node(node, theme), { label: showMarks(sign + node.label), zIndex: node.change ? 1 : 0, forceLabel: picture.nodes.size <= NAMED_NODES });
  });
  graph.forEachEdge((key, attributes) => {
    const edge = picture.edges.get(key);
    if (!edge) return;
    const sign = edge.change ? `${SIGNS[edge.change]} ` : "";
    const { lane, lastLane } = attributes as { lane?: number | null; lastLane?: number | null };
    const isParallel = typeof lane === "number" && typeof lastLane === "number" && lastLane > 0;
    const { isQuiet, ...dressed } = look.edge(edge, theme);
    Object.assign(attributes, dressed, {
      label: isQuiet ? "" : sign + edge.type,
      type: isParallel && lane !== 0 ? "curved" : "arrow",
      curvature: isParallel ? (lane / (lastLane || 1)) * 0.4 : 0,
      zIndex: edge.change ? 1 : 0,
    });
  });
}

/** The nearest node in a direction; without a selection, the one next to the middle. */
function walk(sigma: Sigma, selected: string | null, [dx, dy]: [number, number]): string | null {
  const graph = sigma.getGraph();
  const at = (key: string) => sigma.graphToViewport(graph.getNodeAttributes(key) as { x: number; y: number });
  const { width, height } = sigma.getDimensions();
  const isNode = selected !== null && graph.hasNode(selected);
  const from = isNode ? at(selected) : { x: width / 2, y: height / 2 };
  let best: string | null = null;
  let least = Infinity;
  graph.forEachNode((key) => {
    if (key === selected) return;
    const { x, y } = at(key);
    const along = (x - from.x) * dx + (y - from.y) * dy;
    if (isNode && along <= 0) return;
    const aside = Math.abs((x - from.x) * dy) + Math.abs((y - from.y) * dx);
    const distance = isNode ? along + aside * 2 : Math.hypot(x - from.x, y - from.y);
    if (distance < least) [least, best] = [distance, key];
  });
  return best;
}
