// Queries that were run in this browser, by graph. Their texts only: neither parameters nor results.
const MOST = 40;

function nameOf(graph: string): string {
  return `omnigraph-queries ${graph}`;
}

export function readPast(graph: string): string[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(nameOf(graph)) ?? "[]");
    return Array.isArray(found) ? found.filter((one): one is string => typeof one === "string") : [];
  } catch {
    return [];
  }
}

export function remember(graph: string, query: string): void {
  const kept = [query, ...readPast(graph).filter((one) => one !== query)].slice(0, MOST);
  try {
    localStorage.setItem(nameOf(graph), JSON.stringify(kept));
  } catch {
    // A full or forbidden store costs the history only.
  }
}

export function forget(graph: string): void {
  localStorage.removeItem(nameOf(graph));
}
