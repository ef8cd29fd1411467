package doc

import "iter"

type Scanner struct{ d *Doc }

type SyntaxError struct {
	Offset int
	msg    string
}

func (e *SyntaxError) Error() string { return e.msg }

const nb = "BUG: not built yet"

func (d *Doc) Scan(src []byte) Scanner                             { panic(nb) }
func (s *Scanner) Kind() (Kind, error)                             { panic(nb) }
func (s *Scanner) Null() error                                     { panic(nb) }
func (s *Scanner) Bool() (Node, error)                             { panic(nb) }
func (s *Scanner) Number() (Node, error)                           { panic(nb) }
func (s *Scanner) String() (Node, error)                           { panic(nb) }
func (s *Scanner) ObjectStart() error                              { panic(nb) }
func (s *Scanner) Key(first bool) (key Node, more bool, err error) { panic(nb) }
func (s *Scanner) ArrayStart() error                               { panic(nb) }
func (s *Scanner) More(first bool) (more bool, err error)          { panic(nb) }
func (s *Scanner) Skip() error                                     { panic(nb) }
func (s *Scanner) Value() (Node, error)                            { panic(nb) }
func (s *Scanner) End() error                                      { panic(nb) }
func (s *Scanner) Duplicates() bool                                { panic(nb) }
func (s *Scanner) NoteDuplicate()                                  { panic(nb) }
func (s *Scanner) Offset() int                                     { panic(nb) }
func Parse(d *Doc, src []byte) error                               { panic(nb) }
func Duplicates(src []byte) []string                               { panic(nb) }
func (d *Doc) AppendJSON(b []byte, n Node) []byte                  { panic(nb) }
func (v Value) AppendJSON(b []byte) []byte                         { panic(nb) }
func Equal(a, b Value) bool                                        { panic(nb) }
func (d *Doc) Set(n Node, path ...string)                          { panic(nb) }
func (d *Doc) Remove(path ...string)                               { panic(nb) }
func (d *Doc) Import(v Value) Node                                 { panic(nb) }
func (d *Doc) ImportAs(v Value, shape uint16) Node                 { panic(nb) }
func (v Value) Clone() Value                                       { panic(nb) }
func (d *Doc) NewStrings(items []string) Node                      { panic(nb) }
func MergePatch(target, patch []byte) ([]byte, error)              { panic(nb) }
func JSONPatch(target, patch []byte) ([]byte, error)               { panic(nb) }
func (v Value) Items() iter.Seq2[int, Value]                       { panic(nb) }
func (v Value) Interface() any                                     { panic(nb) }
func (v Value) Bool() bool                                         { panic(nb) }
func (v Value) Int() int64                                         { panic(nb) }
func (v Value) Float() float64                                     { panic(nb) }
func (s *Shape) SlotAfter(name string, guess int) int              { panic(nb) }
func (d *Doc) member(n Node, name string) Node                     { panic(nb) }
func (d *Doc) members(n Node, yield func(string, Value) bool)      { panic(nb) }
func appendQuoted(b []byte, s string) []byte                       { panic(nb) }

// MapSet-like growth for decoders that build maps incrementally:
// SortPairs sorts pairs (key node, value node, …) by key in place, the last of
// equal keys wins, and returns the shortened slice and whether there were
// duplicates.
func (d *Doc) SortPairs(pairs []Node) (sorted []Node, duplicates bool) { panic(nb) }
