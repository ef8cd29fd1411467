// Package check turns the text of an expression into a checked tree with a static cost.
//
// cel-go parses, checks and estimates; callers see its errors. Most rules do not reach it: parse.go
// and quick_check.go know the common part of the language and give up on everything else, including
// all errors. Then rules.go calls cel-go. [Declarations] has the functions, [Provider] gives cel-go
// the types of schemas, and [Vocabulary] the meaning of names in the expressions of a language for
// other programs.
package check
