/** Save bytes as a file, without asking the server for an address that a token would be in. */
export function saveBlob(bytes: Blob, name: string): void {
  const link = document.createElement("a");
  // A type that a browser would open is never kept: what comes out of a graph is data.
  link.href = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
  link.download = name.replace(/[^\w.-]+/g, "_").slice(0, 100);
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
