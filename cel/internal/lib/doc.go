// Package lib holds the functions that Kubernetes adds to the language, bound in cel-go's way:
// their values are cel-go's (ref.Val), and cel-go's checker knows them by their declarations.
// [Libraries] says which version introduced and which removed them. The evaluator calls them
// through cel-go's representation unless it knows a faster way.
package lib
