import { type ReactNode, type SyntheticEvent, useId, useLayoutEffect, useRef } from "react";

interface Props {
  title: string;
  onClose: () => void;
  children: ReactNode;
}

/** A modal dialog, open as long as it is rendered. The browser keeps the focus inside and closes it on Escape. */
export function Dialog({ title, onClose, children }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const titleId = useId();
  // A layout effect is undone while the dialog is still in the page, so that the browser gives the focus back.
  useLayoutEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  // React's strict mode closes and opens it once more; ignore the late event of that close.
  const closed = (event: SyntheticEvent<HTMLDialogElement>) => {
    if (!event.currentTarget.open) onClose();
  };
  return (
    <dialog ref={dialog} className="dialog" aria-labelledby={titleId} onClose={closed}>
      <h2 id={titleId}>{title}</h2>
      {children}
    </dialog>
  );
}
