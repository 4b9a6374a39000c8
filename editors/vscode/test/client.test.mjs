// The client's side against a real `trainc lsp`, in Node: what the extension sends, and what it gets.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { after, test } from "node:test";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const { createProtocolConnection, StreamMessageReader, StreamMessageWriter } = require("vscode-languageserver-protocol/node");
const { COMMANDS, commandArguments, findProgram, INITIALIZATION_OPTIONS, NotFound, serverArguments } =
    require("../out/session.js");

const here = dirname(fileURLToPath(import.meta.url));
const manifest = JSON.parse(readFileSync(join(here, "../package.json"), "utf8"));
const program = findProgram(process.env.TRAINC_BIN ?? "", process.env.PATH);
const starter = readFileSync(join(here, "../../../examples/starter/trainc.kdl"), "utf8");
const folder = realpathSync(mkdtempSync(join(tmpdir(), "trainc-vscode-")));
after(() => rmSync(folder, { recursive: true }));

function write(name, text) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    return pathToFileURL(path).href;
}

/** A session as vscode-languageclient opens it. */
class Session {
    published = new Map();
    waiting = new Set();
    registered = [];

    static async start() {
        const session = new Session();
        session.process = spawn(program, serverArguments(""), { cwd: folder, stdio: ["pipe", "pipe", "inherit"] });
        const { stdout, stdin } = session.process;
        session.connection = createProtocolConnection(new StreamMessageReader(stdout), new StreamMessageWriter(stdin));
        session.connection.onNotification("textDocument/publishDiagnostics", (problems) => {
            session.published.set(problems.uri, problems);
            session.waiting.forEach((check) => check());
        });
        session.connection.onRequest("client/registerCapability", ({ registrations }) => {
            session.registered.push(...registrations);
            return null;
        });
        session.connection.listen();
        session.hello = await session.connection.sendRequest("initialize", {
            processId: process.pid,
            rootUri: null,
            workspaceFolders: [{ uri: pathToFileURL(folder).href, name: "jobs" }],
            initializationOptions: INITIALIZATION_OPTIONS,
            capabilities: {
                workspace: {
                    didChangeWatchedFiles: { dynamicRegistration: true },
                    workspaceEdit: { documentChanges: true },
                },
            },
        });
        await session.connection.sendNotification("initialized", {});
        return session;
    }

    /** Waits until a file has problems that pass the test. */
    problems(uri, wanted) {
        return new Promise((resolve) => {
            const check = () => {
                const found = this.published.get(uri);
                if (found !== undefined && wanted(found)) {
                    this.waiting.delete(check);
                    resolve(found);
                }
            };
            this.waiting.add(check);
            check();
        });
    }

    open(uri, text) {
        const textDocument = { uri, languageId: "kdl", version: 1, text };
        return this.connection.sendNotification("textDocument/didOpen", { textDocument });
    }

    change(uri, version, text) {
        const textDocument = { uri, version };
        return this.connection.sendNotification("textDocument/didChange", { textDocument, contentChanges: [{ text }] });
    }

    ask(method, uri, more = {}) {
        return this.connection.sendRequest(`textDocument/${method}`, { textDocument: { uri }, ...more });
    }

    async stop() {
        const ended = new Promise((resolve) => this.process.once("exit", resolve));
        await this.connection.sendRequest("shutdown");
        await this.connection.sendNotification("exit");
        this.connection.end();
        assert.equal(await ended, 0);
        this.connection.dispose();
    }
}

const codes = ({ diagnostics }) => diagnostics.map((one) => one.code);
const position = (text, words) => {
    const before = text.slice(0, text.indexOf(words) + words.length).split("\n");
    return { line: before.length - 1, character: before.at(-1).length };
};

test("problems of all manifests, with versions, edits, lenses and commands", async () => {
    const broken = starter.replace("my-first-job", "other").replace("micro-batch", "micro-batchh");
    const closed = write("team/other.kdl", broken);
    const opened = write("first.kdl", starter);
    write("foreign.kdl", 'keybinds {\n    bind "Alt h" { GoToTab 1; }\n}\n');
    write("scripts/train.py", "");
    const session = await Session.start();

    // A manifest that nobody opened, named relative to the folder.
    assert.deepEqual(codes(await session.problems(closed, (one) => codes(one).includes("T0120"))).includes("T0120"), true);
    assert.equal(session.published.has(pathToFileURL(join(folder, "foreign.kdl")).href), false);
    assert.equal(session.registered[0].method, "workspace/didChangeWatchedFiles");

    await session.open(opened, starter);
    await session.problems(opened, (one) => one.version === 1);
    const text = starter.replace("micro-batch", "micro-batchh");
    await session.change(opened, 2, text);
    const problems = await session.problems(opened, (one) => one.version === 2);
    const problem = problems.diagnostics.find((one) => one.code === "T0120");
    assert.equal(JSON.stringify(problems).includes(`"message":"${folder}`), false);

    const actions = await session.ask("codeAction", opened, { range: problem.range, context: { diagnostics: [] } });
    const edit = actions[0].edit.documentChanges[0];
    assert.deepEqual(edit.textDocument, { uri: opened, version: 2 });
    assert.equal(edit.edits[0].newText, "micro-batch");
    await session.change(opened, 3, starter);
    await session.problems(opened, (one) => one.version === 3 && !codes(one).includes("T0120"));

    const lenses = await session.ask("codeLens", opened);
    assert.deepEqual(lenses.map((lens) => lens.command.command), ["", ...COMMANDS]);
    assert.deepEqual(lenses[1].command.arguments, [opened]);

    const hover = await session.ask("hover", opened, { position: position(starter, "micro-b") });
    assert.match(hover.contents.value, /sequences/);
    const typed = starter.replace(/\}\s*$/, '    environment "STEPS" "{{ run.');
    await session.change(opened, 4, typed);
    const items = await session.ask("completion", opened, { position: position(typed, "{{ run.") });
    assert.equal(items.some((item) => item.label === "run.steps" && item.detail === "1000"), true);

    // A file on disk is corrected by something else than the editor.
    write("team/other.kdl", starter.replace("my-first-job", "other"));
    const changes = [{ uri: closed, type: 2 }];
    await session.connection.sendNotification("workspace/didChangeWatchedFiles", { changes });
    await session.problems(closed, (one) => !codes(one).includes("T0120"));
    rmSync(join(folder, "scripts"), { recursive: true });
    const scripts = pathToFileURL(join(folder, "scripts")).href;
    await session.connection.sendNotification("workspace/didChangeWatchedFiles", { changes: [{ uri: scripts, type: 3 }] });
    await session.problems(opened, (one) => one.diagnostics.some((all) => all.message.includes("scripts")));
    await session.stop();
});

test("the program is never taken from the workspace", () => {
    const bin = join(folder, "bin");
    mkdirSync(bin, { recursive: true });
    const path = join(bin, "trainc");
    writeFileSync(path, "#!/bin/sh\n");
    assert.throws(() => findProgram("", bin), NotFound, "it is not executable");
    chmodSync(path, 0o755);
    assert.equal(findProgram("", bin), path);
    assert.equal(findProgram(path, ""), path);
    const before = process.cwd();
    process.chdir(bin);
    try {
        for (const relative of [".", "", "./", "../bin"]) {
            assert.throws(() => findProgram("", relative), NotFound, relative);
        }
        assert.throws(() => findProgram("./trainc", bin), NotFound);
    } finally {
        process.chdir(before);
    }
    const configured = manifest.contributes.configuration.properties["trainc.path"];
    assert.equal(configured.scope, "machine");
    assert.deepEqual(manifest.capabilities.untrustedWorkspaces.restrictedConfigurations, ["trainc.path"]);
});

test("a file name is an argument, and no flag", () => {
    const file = (name) => commandArguments("apply", join(folder, name), folder, "prod");
    assert.deepEqual(file("jobs/a b.kdl"), ["apply", "--env=prod", "--", join("jobs", "a b.kdl")]);
    assert.deepEqual(file("--yes.kdl").slice(-2), ["--", "--yes.kdl"]);
    assert.deepEqual(commandArguments("plan", "/elsewhere/a.kdl", folder, ""), ["plan", "--", "/elsewhere/a.kdl"]);
});

test("the commands of the lenses are contributed, and the grammar is valid", () => {
    const contributed = manifest.contributes.commands.map((one) => one.command);
    assert.deepEqual(COMMANDS.filter((one) => !contributed.includes(one)), []);
    const grammar = JSON.parse(readFileSync(join(here, "../syntaxes/kdl.tmLanguage.json"), "utf8"));
    const patterns = [];
    JSON.stringify(grammar, (key, value) => {
        if (["match", "begin"].includes(key)) {
            patterns.push(new RegExp(value));
        }
        return value;
    });
    assert.equal(patterns.length >= 15, true);
    const { nodes, properties } = grammar.repository;
    const names = (pattern, text) => [...text.matchAll(new RegExp(pattern.match, "gm"))].map((found) => found[1]);
    const line = 'job "a" {\n    cluster "ml.g5.xlarge" nodes=2 { spot max-wait="8h"; }\n    banana 1\n}';
    assert.deepEqual(names(nodes, line), ["job", "cluster", "spot"]);
    assert.deepEqual(names(properties, line), ["nodes", "max-wait"]);
});
