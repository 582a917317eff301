import { type Ref, useEffect, useId, useRef, useState } from "react";

// Long enough to type a word, short enough not to be noticed.
const PAUSE_MILLISECONDS = 250;

interface Props {
  ref?: Ref<HTMLInputElement>;
  label: string;
  placeholder: string;
  value: string | undefined;
  suggestions?: readonly string[];
  onChange: (text: string) => void;
}

/** A text field that reports its text after a pause, at Enter, or when it loses the focus. */
export function FilterField({ ref, label, placeholder, value = "", suggestions, onChange }: Props) {
  const listId = useId();
  const [draft, setDraft] = useState({ text: value, of: value });
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  // The address changed by other means: a link, the back button, Clear.
  const text = draft.of === value ? draft.text : value;

  useEffect(() => () => clearTimeout(timer.current), []);
  const tell = (next: string) => {
    clearTimeout(timer.current);
    if (next.trim() !== value) onChange(next);
  };
  return (
    <>
      <input
        ref={ref}
        className="input"
        type="search"
        aria-label={label}
        placeholder={placeholder}
        value={text}
        list={suggestions ? listId : undefined}
        autoComplete="off"
        spellCheck={false}
        onChange={(event) => {
          const next = event.target.value;
          setDraft({ text: next, of: value });
          clearTimeout(timer.current);
          timer.current = setTimeout(() => tell(next), PAUSE_MILLISECONDS);
        }}
        onBlur={() => tell(text)}
        onKeyDown={(event) => {
          if (event.key === "Enter") tell(text);
        }}
      />
      {suggestions && (
        <datalist id={listId}>
          {suggestions.map((suggestion) => (
            <option key={suggestion} value={suggestion} />
          ))}
        </datalist>
      )}
    </>
  );
}
