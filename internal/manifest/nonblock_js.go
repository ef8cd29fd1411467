package manifest

// This file is for browsers, which have no FIFOs.

const nonblock = 0
