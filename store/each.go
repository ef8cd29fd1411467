package store

// This file lists what is too much for one page.

import "context"

// eachPage is how many items Each lists with one call.
const eachPage = 500

// Each calls fn for every item under a prefix as of one revision, 0 for the newest, in the order of the keys, until an error, which it
// returns; ErrCompacted if listing takes longer than old states are kept. It returns the revision.
func Each(ctx context.Context, s Store, prefix string, rev int64, fn func(*Item) error) (int64, error) {
	for o := (ListOptions{Limit: eachPage, Rev: rev}); ; {
		page, err := s.List(ctx, prefix, o)
		if err != nil {
			return 0, err
		}
		for i := range page.Items {
			if err := fn(&page.Items[i]); err != nil {
				return 0, err
			}
		}
		if !page.More {
			return page.Rev, nil
		}
		o.From, o.Rev = page.Items[len(page.Items)-1].Key+"\x00", page.Rev
	}
}
