// The extension: starts `trainc lsp`, and runs `trainc plan` and `trainc apply` in a terminal.

import { dirname } from "node:path";
import * as vscode from "vscode";
import { LanguageClient } from "vscode-languageclient/node";
import { commandArguments, findProgram, INITIALIZATION_OPTIONS, NotFound, serverArguments } from "./session";

let client: LanguageClient | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
    context.subscriptions.push(
        vscode.commands.registerCommand("trainc.plan", (uri?: string) => run("plan", uri)),
        vscode.commands.registerCommand("trainc.apply", (uri?: string) => run("apply", uri)),
        vscode.commands.registerCommand("trainc.restart", restart),
        vscode.workspace.onDidChangeConfiguration((change) => {
            if (change.affectsConfiguration("trainc")) {
                void restart();
            }
        }),
    );
    await start();
}

export async function deactivate(): Promise<void> {
    await client?.dispose();
    client = undefined;
}

async function restart(): Promise<void> {
    await deactivate();
    await start();
}

async function start(): Promise<void> {
    const program = await find();
    if (program === undefined) {
        return;
    }
    const args = serverArguments(setting("env"));
    client = new LanguageClient("trainc", "trainc", { command: program, args }, {
        documentSelector: [{ language: "kdl", scheme: "file" }, { language: "kdl", scheme: "untitled" }],
        initializationOptions: INITIALIZATION_OPTIONS,
    });
    try {
        await client.start();
    } catch (error) {
        void vscode.window.showErrorMessage(`trainc: the language server did not start: ${String(error)}`);
    }
}

/** Runs a command for a manifest in a terminal, without a shell. `apply` asks there before it changes anything. */
async function run(command: "plan" | "apply", given?: string): Promise<void> {
    const uri = given === undefined ? vscode.window.activeTextEditor?.document.uri : vscode.Uri.parse(given);
    if (uri?.scheme !== "file") {
        void vscode.window.showErrorMessage(`trainc: save the manifest before ${command}.`);
        return;
    }
    if (!vscode.workspace.isTrusted) {
        void vscode.window.showErrorMessage(`trainc: ${command} requires a trusted workspace.`);
        return;
    }
    const open = vscode.workspace.textDocuments.find((document) => document.uri.toString() === uri.toString());
    const program = await find();
    if (program === undefined || (open !== undefined && open.isDirty && !(await open.save()))) {
        return;
    }
    const folder = vscode.workspace.getWorkspaceFolder(uri);
    const cwd = folder?.uri.fsPath ?? dirname(uri.fsPath);
    const args = commandArguments(command, uri.fsPath, cwd, setting("env", uri));
    const scope = folder ?? vscode.TaskScope.Workspace;
    const execution = new vscode.ProcessExecution(program, args, { cwd });
    const task = new vscode.Task({ type: "trainc", command }, scope, command, "trainc", execution);
    task.presentationOptions = { focus: command === "apply", clear: true, showReuseMessage: false };
    await vscode.tasks.executeTask(task);
}

function setting(name: string, uri?: vscode.Uri): string {
    return vscode.workspace.getConfiguration("trainc", uri).get<string>(name, "");
}

/** Returns the program, or says why there is none. */
async function find(): Promise<string | undefined> {
    try {
        return findProgram(setting("path"), process.env["PATH"]);
    } catch (error) {
        if (!(error instanceof NotFound)) {
            throw error;
        }
        void vscode.window.showErrorMessage(`trainc: ${error.message}`, "Open Settings").then((choice) => {
            if (choice !== undefined) {
                void vscode.commands.executeCommand("workbench.action.openSettings", "trainc.path");
            }
        });
        return undefined;
    }
}
