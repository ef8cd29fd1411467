package source

import (
	"bytes"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// This file has the names that keys of YAML 1.1 become in JSON.

// words are the plain words that YAML 1.1 reads as booleans (yaml.org/type/bool), with what JSON has in place of them.
var words = map[string]string{
	"y": "true", "Y": "true", "yes": "true", "Yes": "true", "YES": "true", "on": "true", "On": "true", "ON": "true",
	"n": "false", "N": "false", "no": "false", "No": "false", "NO": "false", "off": "false", "Off": "false", "OFF": "false",
	"True": "true", "TRUE": "true", "False": "false", "FALSE": "false",
}

// NameOf returns the name of a key in JSON.
func NameOf(key *yaml.Node) string {
	if key.Kind != yaml.ScalarNode || key.Style != 0 {
		return key.Value
	}
	if word := words[key.Value]; word != "" {
		return word
	}
	if len(key.Value) > 1 && key.Value[0] == '0' || key.Tag == "!!int" {
		if n, err := strconv.ParseInt(key.Value, 0, 64); err == nil {
			return strconv.FormatInt(n, 10)
		}
	}
	return key.Value
}

// Key is a key of a text, and what it becomes.
type Key struct {
	Written, Name, Path string // y, true, spec.true
	Line, Column        int    // in the file
}

// BooleanKeys returns the keys that YAML reads as true or false, in the order of the text, at most 100.
func (t *Text) BooleanKeys() []Key {
	if !mayHaveBooleanKeys(t.text) {
		return nil
	}
	t.once.Do(t.parse)
	var out []Key
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		for i, below := range n.Content {
			if len(out) >= maxDuplicates {
				return
			}
			at := path
			switch {
			case n.Kind == yaml.MappingNode && i%2 == 0:
				continue
			case n.Kind == yaml.MappingNode:
				key := n.Content[i-1]
				name := NameOf(key)
				at = Join(path, name)
				if name != key.Value && words[key.Value] == name {
					out = append(out, Key{key.Value, name, at, t.first + key.Line - 1, key.Column})
				}
			case n.Kind == yaml.SequenceNode:
				at = path + "[" + strconv.Itoa(i) + "]"
			}
			walk(below, at)
		}
	}
	if t.root != nil {
		walk(t.root, "")
	}
	return out
}

// OddKey returns the position of the first key that JSON cannot have, and what it is: null, a list or an object; "" if there is none.
func (t *Text) OddKey() (what string, line, column int) {
	t.once.Do(t.parse)
	var walk func(n *yaml.Node) *yaml.Node
	walk = func(n *yaml.Node) *yaml.Node {
		for i, below := range n.Content {
			if n.Kind == yaml.MappingNode && i%2 == 0 {
				if kind := resolve(below); kind.Kind != yaml.ScalarNode || kind.Tag == "!!null" {
					return below
				}
				continue
			}
			if odd := walk(below); odd != nil {
				return odd
			}
		}
		return nil
	}
	if t.root == nil {
		return "", 0, 0
	}
	odd := walk(t.root)
	if odd == nil {
		return "", 0, 0
	}
	what = map[yaml.Kind]string{yaml.ScalarNode: "null", yaml.SequenceNode: "a list", yaml.MappingNode: "an object"}[resolve(odd).Kind]
	return what, t.first + odd.Line - 1, odd.Column
}

// mayHaveBooleanKeys reports whether a text has one of the words before a colon. It is fast: nearly no text has.
func mayHaveBooleanKeys(text []byte) bool {
	for rest := text; ; {
		at := bytes.IndexByte(rest, ':')
		if at < 0 {
			return false
		}
		if isWordLast(rest[max(0, at-8):at]) {
			return true
		}
		rest = rest[at+1:]
	}
}

// beforeWord and lastOfWord have the bytes before one of the words, and the last ones of the words.
var beforeWord, lastOfWord = setOf(" \n\t{,?-"), setOf("yYnNsSoOfFeE")

// setOf returns a set of bytes.
func setOf(bytes string) (set [256]bool) {
	for i := range len(bytes) {
		set[bytes[i]] = true
	}
	return set
}

// isWordLast reports whether a text ends with one of the words, and spaces after it.
func isWordLast(text []byte) bool {
	end := len(text)
	for end > 0 && text[end-1] == ' ' {
		end--
	}
	start := end
	for start > 0 && !beforeWord[text[start-1]] {
		// Nearly all keys end with other letters, or are longer.
		if start == end && !lastOfWord[text[start-1]] || end-start == len("False") {
			return false
		}
		start--
	}
	return words[string(text[start:end])] != ""
}

// Scalar returns the characters of a scalar; "" if there is none at the path.
func (t *Text) Scalar(path string) string {
	if _, v, all := t.Walk(path); all && v.Kind == yaml.ScalarNode {
		return v.Value
	}
	return ""
}
