/** The command of every member, word for word. */
export function CommandPanel({ command }: { command: readonly string[] }) {
  return (
    <section className="panel" aria-labelledby="command">
      <h2 id="command" className="panel-title">
        Command
      </h2>
      <pre className="command">{shellText(command)}</pre>
    </section>
  );
}

/** As typed in a shell, quoted where the shell would split or expand it. */
export function shellText(command: readonly string[]): string {
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(" ");
}
