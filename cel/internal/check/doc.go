// Package check turns the text of an expression into a checked tree with a static cost.
//
// cel-go parses, checks and estimates; its errors are what callers see. Most rules never reach
// it: parse.go and quick_check.go know the common part of the language and give up on anything
// else, errors first of all, which rules.go then checks the long way. [Declarations] are what
// expressions are checked with, [Provider] shows the types of schemas to cel-go, [Vocabulary] is
// what the names in an expression of a host's language mean.
package check
