import { signal } from "@preact/signals";

/** Whether the last request reached the server. */
export const reachable = signal(true);
/** Counts up when the server is back after it was gone: then what is shown is asked for again. */
export const returns = signal(0);

export function noteReach(isReached: boolean): void {
  if (isReached && !reachable.peek()) returns.value += 1;
  reachable.value = isReached;
}
