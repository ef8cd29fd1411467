// Package fast runs compiled rules. A [Program] is code that runs in a frame and, where the rule
// can be laid out so, a diagram: questions about members, texts and items of a document, each of
// which leads to the next, without a frame and without Values. A diagram either answers or knows
// nothing; then the program runs in the frame from the beginning. [Tests] are the rules of one
// place, evaluated together for callers that need to know only whether all of them hold.
//
// text.go, text_format.go and native_scan.go hold the functions of one text, which run in frames
// and in diagrams alike. They know only what they are certain of.
package fast
