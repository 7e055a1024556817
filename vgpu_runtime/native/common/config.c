#include <string.h>

#include "config.h"

/* The keys of the file's head, then those of every card, then those of a card of the ROCm family. */
enum key {
	VERSION, POD, CONTAINER, ENFORCEMENT, UUID, PCI, MODEL, REQUEST, MEM_BYTES, GPU_ID, RENDER_MINOR, COMPUTE_UNITS,
	XCC, PAIRED, MASKS, MASK, KEYS
};

#define HEAD_KEYS ((1u << UUID) - 1)
#define COMMON_KEYS ((1u << GPU_ID) - 1 - HEAD_KEYS)
#define FAMILY_KEYS ((1u << KEYS) - (1u << GPU_ID))

static const char *const key_names[KEYS] = {
	"version", "pod", "container", "enforcement", "uuid", "pci", "model", "request", "mem_bytes", "gpu_id",
	"render_minor", "compute_units", "xcc", "paired", "masks", "mask",
};

/* Enforcement modes: device_plugin/core/enforcement.py. The library holds processes to their slice in all of them. */
static const char *const modes[] = {"observe", "enforce", "kill"};

/* What was read of the head or of one card; `seen` has a bit for each key. */
struct section {
	unsigned seen;
	bool rocm; /* its part [rocm] has begun */
	struct span values[KEYS];
};

static bool equals(struct span span, const char *word)
{
	return span.length == strlen(word) && !memcmp(span.start, word, span.length);
}

/* 1–256 printable characters without a space, but inside of a model. */
static bool is_value(struct span value, enum key key)
{
	if (value.length < 1 || value.length > 256)
		return false;
	for (size_t i = 0; i < value.length; i++) {
		bool inside = i > 0 && i < value.length - 1;

		if (value.start[i] < (key == MODEL && inside ? ' ' : '!') || value.start[i] > '~')
			return false;
	}
	return true;
}

/* `key = value` */
static bool read_line(struct span line, struct section *section)
{
	const char *space = memchr(line.start, ' ', line.length);
	struct span key = {line.start, space ? (size_t)(space - line.start) : line.length};
	struct span value;
	enum key index = 0;

	if (line.length < key.length + 4 || memcmp(space, " = ", 3))
		return false;
	value = (struct span){space + 3, line.length - key.length - 3};
	while (index < KEYS && !equals(key, key_names[index]))
		index++;
	if (index == KEYS || section->seen & 1u << index || !is_value(value, index))
		return false;
	section->seen |= 1u << index;
	section->values[index] = value;
	return true;
}

/* Decimal digits without sign or leading zero, at most 19 of them, between low and high. */
static bool read_number(struct span span, uint64_t low, uint64_t high, uint64_t *number)
{
	*number = 0;
	if (span.length > 19 || (span.length > 1 && span.start[0] == '0'))
		return false;
	for (size_t i = 0; i < span.length; i++) {
		if (span.start[i] < '0' || span.start[i] > '9')
			return false;
		*number = *number * 10 + (uint64_t)(span.start[i] - '0');
	}
	return *number >= low && *number <= high;
}

/* 0x and lower-case hexadecimal digits, most significant first. */
static bool read_mask(struct span span, struct mask *mask)
{
	memset(mask, 0, sizeof *mask);
	if (span.length < 3 || span.length > 2 + CONFIG_MAX_UNITS / 4 || memcmp(span.start, "0x", 2))
		return false;
	for (size_t i = 0; i < span.length - 2; i++) {
		char digit = span.start[span.length - 1 - i];
		uint32_t value;

		if (digit >= '0' && digit <= '9')
			value = (uint32_t)(digit - '0');
		else if (digit >= 'a' && digit <= 'f')
			value = (uint32_t)(digit - 'a') + 10;
		else
			return false;
		mask->words[i / 8] |= value << (i % 8 * 4);
	}
	return true;
}

/* What the hardware needs of a mask: see RocmLimit in vgpu_runtime/rocm.py. */
static bool mask_fits(struct card *card)
{
	bool on_xcc[CONFIG_MAX_XCC] = {false};
	unsigned covered = 0;

	card->granted_units = 0;
	for (unsigned unit = 0; unit < CONFIG_MAX_UNITS; unit++) {
		bool has = mask_has(&card->granted, unit);

		if (has && unit >= card->compute_units)
			return false;
		if (card->paired && unit % 2 == 0 && unit < card->compute_units &&
		    has != mask_has(&card->granted, unit + 1))
			return false;
		card->granted_units += has;
		if (has && !on_xcc[unit % card->xcc]) {
			on_xcc[unit % card->xcc] = true;
			covered++;
		}
	}
	return covered == card->xcc;
}

static const char *read_card(const struct section *section, struct config *config)
{
	struct card *card = &config->cards[config->card_count];
	const struct span *values = section->values;
	uint64_t gpu_id, minor, units, xcc, paired;

	if (section->seen != (COMMON_KEYS | FAMILY_KEYS) || !section->rocm)
		return "a card has keys unknown or missing";
	if (config->card_count == CONFIG_MAX_CARDS)
		return "too many cards";
	if (!read_number(values[GPU_ID], 1, UINT32_MAX, &gpu_id) ||
	    !read_number(values[RENDER_MINOR], 0, 0xfffff, &minor) ||
	    !read_number(values[MEM_BYTES], 1, UINT64_C(1) << 50, &card->mem_bytes) ||
	    !read_number(values[COMPUTE_UNITS], 1, CONFIG_MAX_UNITS, &units) ||
	    !read_number(values[XCC], 1, CONFIG_MAX_XCC, &xcc) || !read_number(values[PAIRED], 0, 1, &paired))
		return "a number is malformed or out of range";
	for (unsigned i = 0; i < config->card_count; i++)
		if (config->cards[i].gpu_id == gpu_id)
			return "two cards have the same gpu_id";
	card->uuid = values[UUID];
	card->pci = values[PCI];
	card->model = values[MODEL];
	if (!equals(values[REQUEST], "?")) /* not known to the agent */
		card->request = values[REQUEST];
	card->gpu_id = (uint32_t)gpu_id;
	card->render_minor = (uint32_t)minor;
	card->compute_units = (unsigned)units;
	card->xcc = (unsigned)xcc;
	card->paired = paired;
	card->vendor_masks = equals(values[MASKS], "vendor");
	if (!card->vendor_masks && !equals(values[MASKS], "library"))
		return "who holds queues to their units is unknown";
	if (!read_mask(values[MASK], &card->granted) || !mask_fits(card))
		return "a mask is malformed or breaks the card's rules";
	config->card_count++;
	return NULL;
}

static const char *read_head(const struct section *section, struct config *config)
{
	const struct span *values = section->values;
	bool known = section->seen & 1u << VERSION && equals(values[VERSION], CONFIG_VERSION);

	if (!known)
		return "the version is missing or unknown";
	if (section->seen != HEAD_KEYS)
		return "the first section has keys unknown or missing";
	config->pod = values[POD];
	config->container = values[CONTAINER];
	config->enforcement = values[ENFORCEMENT];
	for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
		if (equals(config->enforcement, modes[i]))
			return NULL;
	return "the enforcement mode is unknown";
}

static const char *read_section(const struct section *section, bool head, struct config *config)
{
	if (!head)
		return read_card(section, config);
	return read_head(section, config);
}

const char *config_parse(const char *text, size_t length, struct config *config)
{
	struct section section = {0};
	const char *wrong;
	bool head = true;

	memset(config, 0, sizeof *config);
	if (length == 0 || length > CONFIG_MAX_BYTES || text[length - 1] != '\n')
		return "it is empty, truncated or too long";
	for (const char *end = text + length; text < end;) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		struct span line = {text, (size_t)(newline - text)};

		text = newline + 1;
		if (line.length == 0 || line.start[0] == '#')
			continue;
		if (equals(line, "[card]")) {
			wrong = read_section(&section, head, config);
			if (wrong)
				return wrong;
			memset(&section, 0, sizeof section);
			head = false;
		} else if (equals(line, "[rocm]") && !head && section.seen == COMMON_KEYS && !section.rocm) {
			section.rocm = true;
		} else if (!read_line(line, &section)) {
			return "a line is not 'key = value', repeats or invents a key, or begins a section out of place";
		}
	}
	wrong = read_section(&section, head, config);
	if (wrong)
		return wrong;
	return config->card_count ? NULL : "it has no card";
}

struct request_words config_request(const struct card *card)
{
	struct request_words words = {.resource = card->request};
	const char *colon = card->request.length ? memchr(card->request.start, ':', card->request.length) : NULL;

	if (colon)
		words.resource.length = (size_t)(colon - card->request.start) + 1;
	words.amount.start = words.resource.start + words.resource.length;
	words.amount.length = card->request.length - words.resource.length;
	return words;
}
