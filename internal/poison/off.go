//go:build !poison

package poison

// On reports whether released memory is poisoned.
const On = false
