/*
 * The scores of the policy `fragmentation` for one slice, and their upper bounds, row by row.
 *
 * The same in numpy is in expected_fill.py, cache.py and fill.py: that is the reference, and the fallback where this is not
 * compiled. Both give the same values to the last digit, so sums are added in numpy's order and nothing is contracted.
 * numpy needs some forty passes over arrays for a few hundred stale rows; here a row stays in registers.
 *
 * Arrays are of 64-bit integers and doubles unless it is said; their shapes are those of the module kernel.
 */
#include <stdbool.h>
#include <stdint.h>

#define MOST_PRICES 17
#define MOST_CARDS 64
#define OPENING 9.0
#define ERROR 1e-9
#define DIGITS 1e6
#define INFINITY __builtin_inf()
/* Added and subtracted again, it rounds a number below 2^51 to the nearest whole one, ties to even, as rint does. */
#define WHOLE 0x1.8p52

/* The layers of a table, in the order of COLUMNS in card_columns.py. */
enum { FREE_MIB, FREE_CORES, FREE_SLICES, SERVING, USABLE, CORDONED, SHORT, MIB, UNITS, GROUPS, MOST, KIND };

struct table {
	int64_t nodes, cards;
	const int64_t *layers; /* (layers, nodes, cards) */
	const int64_t *host;   /* CPU (milli), memory (MiB), disk (MiB): (3, nodes) */
	const int64_t *stamp;  /* grows with every change of a row: (nodes) */
};

struct fill {
	int64_t kinds, prices, levels, mem, cores, several;
	const double *worth; /* (kinds, levels, prices) */
	const double *cpu;   /* (prices) */
	const double *price; /* (kinds) */
	/* Shapes of several cards: (several), and their value (kinds, several). */
	const int64_t *several_cards, *several_cpu, *several_memory;
	const double *several_value;
};

struct shape {
	int64_t cpu, memory;
	const int64_t *mib, *cores; /* the slice's size on each kind: (kinds + 1) */
	const double *price;        /* its price on each kind, infinite where the kind is not accepted: (kinds + 1) */
};

/*
 * What upper bounds keep of each row: worth of its cards (nodes, cards), the best CPU price, all cards untouched, and the
 * row's stamp when this was computed.
 */
struct now {
	double *worth;
	int64_t *price;
	uint8_t *untouched;
	int64_t *made;
};

/* The scores of one shape: of each row the value, or an upper bound of it if it is not `exact`, and the best card's cell. */
struct scores {
	double *value;
	uint8_t *card, *exact;
};

static const int64_t *layer(const struct table *table, int number, int64_t row)
{
	return table->layers + (number * table->nodes + row) * table->cards;
}

static int64_t floor_divided(int64_t number, int64_t by)
{
	return number / by - (number % by < 0);
}

static double rounded(double value)
{
	return (value * DIGITS + WHOLE - WHOLE) / DIGITS;
}

/* The sum of values that are `step` apart, in the order in which numpy adds up to 128 of them. */
static double sum(const double *values, int64_t count, int64_t step)
{
	double part[8], whole = 0.0;
	int64_t at = 0;

	if (count >= 8) {
		for (; at < 8; at++)
			part[at] = values[at * step];
		for (; at < count - count % 8; at++)
			part[at % 8] += values[at * step];
		whole = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
	}
	for (; at < count; at++)
		whole += values[at * step];
	return whole;
}

/* The level of a card with `mib` and `cores` free: Grid.levels. */
static int64_t level(const struct fill *fill, int64_t mib, int64_t cores, int64_t card_mib, int64_t groups)
{
	int64_t first = floor_divided(mib * fill->mem, card_mib);

	if (fill->cores)
		return first * (fill->cores + 1) + floor_divided(cores * fill->cores, groups);
	cores = -floor_divided(-cores * fill->mem, groups);
	return first < cores ? first : cores;
}

/* A card of a row, as all functions need it. */
struct card {
	int64_t mib, cores, slices, card_mib, groups, kind;
	bool usable, untouched;
};

static struct card card_of(const struct table *table, int64_t row, int64_t cell)
{
	int64_t slices = layer(table, FREE_SLICES, row)[cell];

	return (struct card){
		.mib = layer(table, FREE_MIB, row)[cell],
		.cores = layer(table, FREE_CORES, row)[cell],
		.slices = slices,
		.card_mib = layer(table, MIB, row)[cell],
		.groups = layer(table, GROUPS, row)[cell],
		.kind = layer(table, KIND, row)[cell],
		.usable = layer(table, USABLE, row)[cell] == 1,
		.untouched = slices == layer(table, MOST, row)[cell],
	};
}

/* The worth of a card with `mib` and `cores` free at each CPU price. */
static const double *worth_of(const struct fill *fill, const struct card *card, int64_t mib, int64_t cores)
{
	int64_t kind = card->kind < 0 ? 0 : card->kind;

	return fill->worth + (kind * fill->levels + level(fill, mib, cores, card->card_mib, card->groups)) * fill->prices;
}

/* Writes the worth of the cards now, (cards, prices), and returns whether all cards are untouched. */
static bool cards_now(const struct table *table, const struct fill *fill, int64_t row, struct card *cards,
		      double (*worth)[MOST_PRICES])
{
	bool untouched = true;

	for (int64_t cell = 0; cell < table->cards; cell++) {
		struct card *card = &cards[cell];
		bool gives;
		const double *at;

		*card = card_of(table, row, cell);
		gives = card->usable && card->slices > 0;
		at = gives ? worth_of(fill, card, card->mib, card->cores) : 0;
		for (int64_t price = 0; price < fill->prices; price++)
			worth[cell][price] = gives ? at[price] : 0.0;
		untouched &= card->untouched;
	}
	return untouched;
}

/* The worth of a node at a CPU price. */
static double node_worth(const struct table *table, const struct fill *fill, int64_t row,
			 double (*worth)[MOST_PRICES], int64_t price)
{
	return sum(&worth[0][price], table->cards, MOST_PRICES) + fill->cpu[price] * (double)table->host[row];
}

/* The worth of a node with these amounts free for pods of several cards: MultiCardWorth._worth. */
static double several_worth(const struct fill *fill, int64_t kind, int64_t number, int64_t cpu, int64_t memory)
{
	const double *value = fill->several_value + (kind < 0 ? fill->kinds - 1 : kind) * fill->several;
	double values[MOST_CARDS];

	for (int64_t each = 0; each < fill->several; each++)
		values[each] = number >= fill->several_cards[each] && cpu >= fill->several_cpu[each] &&
					       memory >= fill->several_memory[each]
				       ? value[each]
				       : 0.0;
	return sum(values, fill->several, 1);
}

/* What a slice of a free card, and of another one, loses for pods of several cards. */
static void several_lost(const struct table *table, const struct fill *fill, const struct shape *shape, int64_t row,
			 const struct card *cards, double lost[2])
{
	int64_t number = 0, kind = cards[0].kind, cpu = table->host[row], memory = table->host[table->nodes + row];
	double now;

	lost[0] = lost[1] = 0.0;
	if (!fill->several)
		return;
	for (int64_t cell = 0; cell < table->cards; cell++)
		number += cards[cell].untouched && cards[cell].usable;
	now = several_worth(fill, kind, number, cpu, memory);
	cpu -= shape->cpu;
	memory -= shape->memory;
	lost[1] = several_worth(fill, kind, number - 1, cpu, memory) - now;
	lost[0] = several_worth(fill, kind, number, cpu, memory) - now;
}

/* FillBounds._compute for one row. */
static void update_now(const struct table *table, const struct fill *fill, int64_t row, struct now *now)
{
	struct card cards[MOST_CARDS];
	double worth[MOST_CARDS][MOST_PRICES], least = INFINITY;
	int64_t best = 0;

	now->untouched[row] = cards_now(table, fill, row, cards, worth);
	for (int64_t price = 0; price < fill->prices; price++) {
		double node = node_worth(table, fill, row, worth, price);

		if (node < least) {
			least = node;
			best = price;
		}
	}
	now->price[row] = best;
	for (int64_t cell = 0; cell < table->cards; cell++)
		now->worth[row * table->cards + cell] =
			cards[cell].usable && cards[cell].slices > 0 ? worth[cell][best] : INFINITY;
	now->made[row] = table->stamp[row];
}

/* FillBounds._slice for one row, of which `now` is up to date. */
static double bound_of(const struct table *table, const struct fill *fill, const struct shape *shape,
		       const struct now *now, int64_t row)
{
	struct card cards[MOST_CARDS];
	int64_t best = now->price[row];
	double most = -INFINITY, lost[2];

	for (int64_t cell = 0; cell < table->cards; cell++)
		cards[cell] = card_of(table, row, cell);
	several_lost(table, fill, shape, row, cards, lost);
	for (int64_t cell = 0; cell < table->cards; cell++) {
		struct card *card = &cards[cell];
		int64_t kind = card->kind < 0 ? fill->kinds : card->kind;
		int64_t mib = card->mib - shape->mib[kind], cores = card->cores - shape->cores[kind];
		double after, score, held = now->worth[row * table->cards + cell];

		if (mib < 0 || cores < 0 || held == INFINITY || shape->price[kind] == INFINITY)
			continue;
		after = card->slices > 1 ? worth_of(fill, card, mib, cores)[best] : 0.0;
		score = after - held - shape->price[kind] + lost[card->untouched && card->usable];
		most = score > most ? score : most;
	}
	most = most - fill->cpu[best] * (double)shape->cpu - (now->untouched[row] ? OPENING : 0.0);
	return rounded(most + ERROR);
}

/* NodeScores._score for one slice and one row: the score of the row's best card, and its cell into `best`. */
static double score_of(const struct table *table, const struct fill *fill, const struct shape *shape, int64_t row,
		       uint8_t *best)
{
	struct card cards[MOST_CARDS];
	double worth[MOST_CARDS][MOST_PRICES], node[MOST_PRICES];
	bool untouched = cards_now(table, fill, row, cards, worth);
	double least = INFINITY, lost[2], most = -INFINITY;

	*best = 0;
	for (int64_t price = 0; price < fill->prices; price++) {
		node[price] = node_worth(table, fill, row, worth, price);
		least = node[price] < least ? node[price] : least;
	}
	several_lost(table, fill, shape, row, cards, lost);
	for (int64_t cell = 0; cell < table->cards; cell++) {
		struct card *card = &cards[cell];
		int64_t kind = card->kind < 0 ? fill->kinds : card->kind;
		int64_t mib = card->mib - shape->mib[kind], cores = card->cores - shape->cores[kind];
		const double *at;
		double left = INFINITY, score;

		if (!card->usable || card->slices < 1 || mib < 0 || cores < 0 || shape->price[kind] == INFINITY)
			continue;
		at = worth_of(fill, card, mib, cores);
		for (int64_t price = 0; price < fill->prices; price++) {
			double after = card->slices > 1 ? at[price] : 0.0;

			after += node[price] - worth[cell][price];
			if (shape->cpu)
				after -= fill->cpu[price] * (double)shape->cpu;
			left = after < left ? after : left;
		}
		score = left - least + lost[card->untouched && card->usable] - shape->price[kind];
		score = rounded(score - (untouched ? OPENING : 0.0));
		if (score > most) {
			most = score;
			*best = (uint8_t)cell;
		}
	}
	return most;
}

static double exact_score(const struct table *table, const struct fill *fill, const struct shape *shape, int64_t row,
			  struct scores *scores)
{
	scores->exact[row] = true;
	return scores->value[row] = score_of(table, fill, shape, row, &scores->card[row]);
}

/* FillBounds._compute. */
void vgpu_now(const struct table *table, const struct fill *fill, const int64_t *rows, int64_t count, struct now *now)
{
	for (int64_t each = 0; each < count; each++)
		update_now(table, fill, rows[each], now);
}

/* FillBounds._slice: the bound of each of the `count` rows into `bound`. */
void vgpu_bounds(const struct table *table, const struct fill *fill, const struct shape *shape, const struct now *now,
		 const int64_t *rows, int64_t count, double *bound)
{
	for (int64_t each = 0; each < count; each++)
		bound[each] = bound_of(table, fill, shape, now, rows[each]);
}

/* NodeScores._score for one slice: the exact scores of these rows. */
void vgpu_scores(const struct table *table, const struct fill *fill, const struct shape *shape, const int64_t *rows,
		 int64_t count, struct scores *scores)
{
	for (int64_t each = 0; each < count; each++)
		exact_score(table, fill, shape, rows[each], scores);
}

/* NodeScores.refresh for one slice: the bound of each row that has changed since the stamp `seen`. */
void vgpu_refresh(const struct table *table, const struct fill *fill, const struct shape *shape, struct now *now,
		  int64_t seen, struct scores *scores)
{
	for (int64_t row = 0; row < table->nodes; row++) {
		if (table->stamp[row] <= seen)
			continue;
		if (table->stamp[row] > now->made[row])
			update_now(table, fill, row, now);
		scores->value[row] = bound_of(table, fill, shape, now, row);
		scores->exact[row] = false;
	}
}

/* The first row with the largest value or bound, of those marked in `among` (0: all); -1 if no row fits. */
static int64_t foremost(const struct table *table, const struct scores *scores, const uint8_t *among)
{
	double most = -INFINITY;
	int64_t best = -1;

	for (int64_t row = 0; row < table->nodes; row++)
		if (scores->value[row] > most && (!among || among[row])) {
			most = scores->value[row];
			best = row;
		}
	return best;
}

/*
 * NodeScores.best for one slice. A row is scored only if its bound, or its place before an equal one, may make it the
 * best. The row with the largest bound is scored first: it nearly always leaves few others.
 */
int64_t vgpu_best(const struct table *table, const struct fill *fill, const struct shape *shape, struct scores *scores,
		  const uint8_t *among)
{
	int64_t best = foremost(table, scores, among);

	while (best >= 0 && !scores->exact[best]) {
		double value, most = exact_score(table, fill, shape, best, scores);

		for (int64_t row = 0; row < table->nodes; row++) {
			if (scores->value[row] <= most || (among && !among[row]))
				continue;
			value = scores->exact[row] ? scores->value[row] : exact_score(table, fill, shape, row, scores);
			most = value > most ? value : most;
		}
		best = foremost(table, scores, among);
	}
	return best;
}
