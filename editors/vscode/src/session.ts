// What the extension and its tests share: everything that needs no editor.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, isAbsolute, join, relative, sep } from "node:path";

/** The commands that code lenses of the server may run. */
export const COMMANDS = ["trainc.plan", "trainc.apply"];

/** The options that the server gets with `initialize`. */
export const INITIALIZATION_OPTIONS = { commands: COMMANDS };

/** Why the program was not found, to be shown to the user. */
export class NotFound extends Error {}

/**
 * Returns the absolute path of trainc: the configured one, or the first on `PATH`. Relative entries of `PATH` are
 * skipped, since the workspace could contain a program of that name.
 */
export function findProgram(configured: string, path: string | undefined, platform = process.platform): string {
    if (configured !== "") {
        if (!isAbsolute(configured)) {
            throw new NotFound(`The setting trainc.path must be an absolute path, and is "${configured}".`);
        }
        if (!isProgram(configured)) {
            throw new NotFound(`The setting trainc.path names "${configured}", which is not an executable file.`);
        }
        return configured;
    }
    const name = platform === "win32" ? "trainc.exe" : "trainc";
    const found = (path ?? "")
        .split(delimiter)
        .filter(isAbsolute)
        .map((directory) => join(directory, name))
        .find(isProgram);
    if (found === undefined) {
        throw new NotFound("trainc was not found on PATH. Install it, or name it in the setting trainc.path.");
    }
    return found;
}

function isProgram(path: string): boolean {
    try {
        accessSync(path, constants.X_OK);
        return statSync(path).isFile();
    } catch {
        return false;
    }
}

/** Returns the arguments of the language server. */
export function serverArguments(env: string): string[] {
    return ["lsp", ...environment(env)];
}

/** Returns the arguments of `plan` or `apply` for a file, which is named relative to the folder that contains it. */
export function commandArguments(command: "plan" | "apply", file: string, folder: string, env: string): string[] {
    const below = relative(folder, file);
    const isBelow = below !== "" && below !== ".." && !below.startsWith(`..${sep}`) && !isAbsolute(below);
    // A name that begins with a hyphen is no flag.
    return [command, ...environment(env), "--", isBelow ? below : file];
}

function environment(env: string): string[] {
    return env === "" ? [] : [`--env=${env}`];
}
