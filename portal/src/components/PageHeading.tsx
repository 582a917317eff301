import { type ReactNode, useEffect, useRef } from "react";

// The first page that opens leaves the focus where the browser puts it; later ones announce themselves.
let isFirst = true;

/** A page's title, in the window's title too. It takes the focus on navigation to the page. */
export function PageHeading({ title, children }: { title: string; children?: ReactNode }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    if (!isFirst) heading.current?.focus({ preventScroll: true });
    isFirst = false;
  }, []);
  return (
    <>
      <title>{`${title} · Warpyard`}</title>
      <h1 ref={heading} tabIndex={-1}>
        {children ?? title}
      </h1>
    </>
  );
}
