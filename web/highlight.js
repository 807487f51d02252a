// Colours for code: one regular expression a language, tried at every place; what it does not know stays plain.
// Light on purpose: it marks what the eye looks for, and parses nothing.

const words = (text) => `\\b(?:${text.trim().split(/\s+/).join("|")})\\b`;

const NUMBER = String.raw`\b(?:0[xXbBoO][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?)[a-zA-Z]?\b`;
const CALL = String.raw`\b[A-Za-z_$][\w$]*(?=\()`;
const C_COMMENT = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|(?![\s\S]))`;
const C_STRING = String.raw`"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?`;
const SCRIPT_WORDS = `await async break case catch class const continue debugger default delete do else export extends
  finally for from function if import in instanceof let new of return static super switch this throw try typeof var void
  while with yield`;

// Order matters: the first class that matches at a place wins.
const GRAMMARS = {
  python: {
    comment: String.raw`#[^\n]*`,
    string: String.raw`(?:(?<!\w)[rRbBfFuU]{1,2})?(?:"""[\s\S]*?(?:"""|(?![\s\S]))|'''[\s\S]*?(?:'''|(?![\s\S]))|"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?)`,
    meta: String.raw`@[\w.]+`,
    keyword: words(`and as assert async await break case class continue def del elif else except finally for from global if
      import in is lambda match nonlocal not or pass raise return try while with yield`),
    constant: words("True False None self cls"),
    number: NUMBER,
    call: CALL,
  },
  javascript: {
    comment: C_COMMENT,
    string: `\`(?:\\\\[\\s\\S]|[^\`\\\\])*\`?|${C_STRING}`,
    keyword: words(SCRIPT_WORDS),
    constant: words("true false null undefined NaN Infinity globalThis"),
    number: NUMBER,
    call: CALL,
  },
  bash: {
    comment: String.raw`(?<![\w$\\{])#[^\n]*`,
    string: String.raw`"(?:\\[\s\S]|[^"\\])*"?|'[^']*'?`,
    constant: String.raw`\$(?:\w+|\{[^}\n]*\}|[@*#?$!-])`,
    keyword: words("if then else elif fi for in do done while until case esac function return exit local export readonly set trap break continue"),
    call: words("echo printf cd cat ls grep sed awk sort head tail wc cut tr find xargs mkdir rm cp mv read test source sleep date seq"),
    number: NUMBER,
  },
  go: {
    comment: C_COMMENT,
    string: "`[^`]*`?|" + C_STRING,
    keyword: words(`break case chan const continue default defer else fallthrough for func go goto if import interface map
      package range return select struct switch type var`),
    constant: words("true false nil iota"),
    meta: words("string int int8 int16 int32 int64 uint uint8 uint32 uint64 float32 float64 bool byte rune error any"),
    number: NUMBER,
    call: CALL,
  },
  c: {
    comment: C_COMMENT,
    meta: String.raw`^[ \t]*#[ \t]*\w+[^\n]*`,
    string: C_STRING,
    keyword: words(`break case const continue default do else enum extern for goto if inline return sizeof static struct
      switch typedef union volatile while`),
    constant: words("NULL true false stdin stdout stderr"),
    number: NUMBER,
    call: CALL,
  },
};
GRAMMARS.c.type = words("void char short int long float double signed unsigned bool size_t ssize_t uint8_t int64_t uint64_t FILE");
GRAMMARS.typescript = {
  ...GRAMMARS.javascript,
  keyword: words(`${SCRIPT_WORDS} abstract as declare enum implements interface keyof namespace private protected public readonly satisfies type`),
  type: words("any boolean never number object string symbol unknown void Array Map Promise Record Set"),
};

const LIMIT = 200000; // characters: beyond, colours would cost more than they help

const compiled = new Map();

function patternOf(language) {
  if (!compiled.has(language)) {
    const rows = Object.entries(GRAMMARS[language] ?? {});
    const source = rows.map(([name, pattern]) => `(?<${name}>${pattern})`).join("|");
    compiled.set(language, rows.length ? new RegExp(source, "gm") : null);
  }
  return compiled.get(language);
}

// The code as a fragment of text nodes and spans.
export function highlight(code, language) {
  const into = document.createDocumentFragment();
  const pattern = code.length <= LIMIT ? patternOf(language) : null;
  let plain = 0;
  for (const match of pattern ? code.matchAll(pattern) : []) {
    if (!match[0]) continue;
    if (match.index > plain) into.append(code.slice(plain, match.index));
    const span = document.createElement("span");
    span.className = `token-${Object.keys(match.groups).find((name) => match.groups[name] !== undefined)}`;
    span.textContent = match[0];
    into.append(span);
    plain = match.index + match[0].length;
  }
  into.append(code.slice(plain));
  return into;
}
