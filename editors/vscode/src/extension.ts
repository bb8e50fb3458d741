// Starts `omnigraph lsp`, and stops it; what the languages mean is known there alone.
import * as vscode from "vscode";
import { LanguageClient, type LanguageClientOptions, type ServerOptions } from "vscode-languageclient/node";

const LANGUAGES = ["omnigraph-schema", "omnigraph-query"];

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  context.subscriptions.push(
    vscode.commands.registerCommand("omnigraph.restart", restart),
    vscode.workspace.onDidGrantWorkspaceTrust(start),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      if (event.affectsConfiguration("omnigraph.command")) await restart();
    }),
  );
  await start();
}

export async function deactivate(): Promise<void> {
  await stop();
}

async function restart(): Promise<void> {
  await stop();
  await start();
}

async function stop(): Promise<void> {
  const running = client;
  client = undefined;
  await running?.dispose();
}

async function start(): Promise<void> {
  // The server is a program of this machine, and reads the graphs that settings name.
  if (client !== undefined || !vscode.workspace.isTrusted) return;
  const settings = vscode.workspace.getConfiguration("omnigraph");
  const command = settings.get<string>("command") || "omnigraph";
  const server: ServerOptions = { command, args: ["lsp"] };
  const options: LanguageClientOptions = {
    documentSelector: LANGUAGES.map((language) => ({ language })),
    initializationOptions: { schema: settings.get<string>("schema"), branch: settings.get<string>("branch") },
    synchronize: {
      configurationSection: "omnigraph",
      fileEvents: vscode.workspace.createFileSystemWatcher("**/*.{pg,gq}"),
    },
  };
  const started = new LanguageClient("omnigraph", "omnigraph", server, options);
  client = started;
  try {
    await started.start();
  } catch (error) {
    if (client === started) client = undefined;
    const reason = error instanceof Error ? error.message : String(error);
    await vscode.window.showErrorMessage(
      `omnigraph: \`${command} lsp\` could not be started (${reason}). Install it with: pip install 'omnigraph[lsp]'`,
    );
  }
}
