import { signal } from "@preact/signals";

/** Whether the last request reached the server. */
export const reachable = signal(true);
