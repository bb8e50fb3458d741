// The token: in memory and in this tab's sessionStorage, so that a reload keeps it; nowhere else.
import { signal } from "@preact/signals";

const STORED = "omnigraph-token";

export const token = signal<string | null>(sessionStorage.getItem(STORED));
/** Why there is no token: shown where somebody signs in. */
export const signedOutBecause = signal<string | null>(null);
/** Whether the server asks for tokens at all. */
export const isOpen = signal(false);

export function signIn(value: string): void {
  sessionStorage.setItem(STORED, value);
  signedOutBecause.value = null;
  token.value = value;
}

export function signOut(): void {
  sessionStorage.removeItem(STORED);
  token.value = null;
}

/** End the session because the server does not accept the token any more. */
export function expel(): void {
  if (token.value) signedOutBecause.value = "The server no longer accepts this token. It may have expired or been revoked.";
  signOut();
}
