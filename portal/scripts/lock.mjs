// Takes out of package-lock.json what is of no use for installing: the addresses at which authors ask for funding.
// `.npmrc` already keeps download addresses out, so that the file names no host at all.
import { readFileSync, writeFileSync } from "node:fs";

const lock = JSON.parse(readFileSync("package-lock.json", "utf8"));
for (const entry of Object.values(lock.packages)) delete entry.funding;
const text = `${JSON.stringify(lock, null, 2)}\n`;
const host = /"[a-z]+:\/\/[^"]*"/.exec(text);
if (host) throw new Error(`package-lock.json names a host: ${host[0]}`);
writeFileSync("package-lock.json", text);
