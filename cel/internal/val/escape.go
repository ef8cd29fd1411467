package val

import "strings"

// This file translates between the names of members in documents and in rules.

// Reserved are the words that a rule must escape to use them as names of fields.
var Reserved = map[string]bool{
	"true": true, "false": true, "null": true, "in": true, "as": true, "break": true, "const": true,
	"continue": true, "else": true, "for": true, "function": true, "if": true, "import": true, "let": true,
	"loop": true, "package": true, "namespace": true, "return": true, "var": true, "void": true, "while": true,
}

// Escape returns the name by which rules refer to a member, false if there is none.
func Escape(name string) (string, bool) {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return "", false
	}
	if Reserved[name] {
		return "__" + name + "__", true
	}
	plain := true
	for i := 0; i < len(name); i++ {
		switch c := name[i]; {
		case c == '.', c == '-', c == '/', c == '_' && i > 0 && name[i-1] == '_':
			plain = false
		case c == '_', c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		default:
			return "", false
		}
	}
	if plain {
		return name, true
	}
	return escaper.Replace(name), true
}

var escaper = strings.NewReplacer("__", "__underscores__", ".", "__dot__", "-", "__dash__", "/", "__slash__")

// Unescape returns the member to which a name in a rule refers, false if there is none.
func Unescape(name string) (string, bool) {
	if !strings.Contains(name, "__") {
		return name, true
	}
	var b strings.Builder
	for i := 0; i < len(name); {
		word, n := escapeSequence(name[i:])
		if n == 0 {
			b.WriteByte(name[i])
			i++
			continue
		}
		switch word {
		case "underscores":
			b.WriteString("__")
		case "dot":
			b.WriteByte('.')
		case "dash":
			b.WriteByte('-')
		case "slash":
			b.WriteByte('/')
		default:
			if !Reserved[word] || n != len(name) {
				return "", false
			}
			b.WriteString(word)
		}
		i += n
	}
	return b.String(), true
}

// escapeSequence returns the word of a sequence __word__ at the start of s, and the length of the
// sequence, 0 if there is none. A word has one or more characters other than underscores.
func escapeSequence(s string) (word string, n int) {
	if !strings.HasPrefix(s, "__") {
		return "", 0
	}
	end := strings.IndexByte(s[2:], '_')
	if end <= 0 || !strings.HasPrefix(s[2+end:], "__") {
		return "", 0
	}
	return s[2 : 2+end], end + 4
}
