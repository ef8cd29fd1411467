package describe

// OrDefault sets a nil pointer to a value.
func OrDefault[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}
