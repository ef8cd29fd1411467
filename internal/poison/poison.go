// Package poison finds memory that is used after it went back to a pool. It is a debug mode: with the build tag "poison", packages
// that pool documents and buffers overwrite them on release and never hand them out again, so that a late reader sees garbage or
// panics instead of the bytes of another request. Without the tag, the mode costs nothing.
//
//	go test -tags poison ./...
package poison

// Byte is what [Fill] writes. It is not valid UTF-8 and not JSON, so that a text that contains it cannot pass for a real one.
const Byte = 0xDB

// Fill overwrites b up to its capacity, if the mode is on.
func Fill(b []byte) {
	if !On {
		return
	}
	b = b[:cap(b)]
	for i := range b {
		b[i] = Byte
	}
}
