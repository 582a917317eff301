import { expect, test } from "vitest";

import { shellText } from "./CommandPanel";

test("a command reads as one would type it", () => {
  expect(shellText(["sh", "-c", "echo 'hi' > /tmp/x"])).toBe(String.raw`sh -c 'echo '\''hi'\'' > /tmp/x'`);
  expect(shellText(["python", "train.py", "--lr=0.1"])).toBe("python train.py --lr=0.1");
});
