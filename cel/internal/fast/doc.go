// Package fast runs compiled rules. A [Program] is code that runs in a frame and, if the rule has
// that form, a diagram: questions about members, texts and items of a document, each of which leads
// to the next, without a frame and without Values. A diagram either answers or does not know; then
// the program runs in the frame from the start. [Tests] are the rules of one place, evaluated
// together for callers that only need to know whether all of them hold.
//
// text.go, text_format.go and native_scan.go have the functions of one text, which are used in
// frames and in diagrams. They answer only if they are certain of the result.
package fast
