package flow

import "crypto/sha256"

// This file deals flows to queues: shuffle sharding. Two flows rarely share all queues of their hands.

const (
	maxHand = 15 // cards of a hand that a hash has enough bits for
	maxDeck = 1 << 26
)

// hashFlow returns what a flow's hand is dealt by: the first eight bytes of a SHA-256 sum, the least
// significant one first.
func hashFlow(schema, distinguisher string) uint64 {
	var space [256]byte
	text := append(append(append(space[:0], schema...), 0), distinguisher...)
	sum := sha256.Sum256(text)
	var h uint64
	for i := range 8 {
		h |= uint64(sum[i]) << (8 * i)
	}
	return h
}

// deal deals a hand from a deck of cards 0 to deck-1, without repetition. It returns the hand's size.
func deal(hash uint64, deck, hand int, cards *[maxHand]int) int {
	for i := range hand {
		left := uint64(deck - i)
		cards[i] = int(hash % left)
		hash /= left
	}
	// A card is a position among the queues that are left. The earlier cards, from the last to the
	// first, turn it into the number of the queue.
	var picked [maxHand]int
	for i := range hand {
		card := cards[i]
		for j := i; j > 0; j-- {
			if card >= cards[j-1] {
				card++
			}
		}
		picked[i] = card
	}
	*cards = picked
	return hand
}
