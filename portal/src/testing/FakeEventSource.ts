/** An event stream that a test controls. */
export class FakeEventSource extends EventTarget {
  static readonly CONNECTING = 0;
  static readonly OPEN = 1;
  static readonly CLOSED = 2;
  /** All that were opened in this test, oldest first. */
  static readonly all: FakeEventSource[] = [];

  readonly url: string;
  readyState = FakeEventSource.OPEN;

  constructor(url: string) {
    super();
    this.url = url;
    FakeEventSource.all.push(this);
  }

  static last(): FakeEventSource {
    const last = FakeEventSource.all.at(-1);
    if (!last) throw new Error("no event stream was opened");
    return last;
  }

  say(event: string, data: unknown = {}): void {
    this.dispatchEvent(new MessageEvent(event, { data: JSON.stringify(data) }));
  }

  /** Lost: the browser tries again by itself. */
  lose(): void {
    this.readyState = FakeEventSource.CONNECTING;
    this.dispatchEvent(new Event("error"));
  }

  close(): void {
    this.readyState = FakeEventSource.CLOSED;
  }
}
