/* SPDX-License-Identifier: MIT */
#include "common/help_page.h"

#include "common/config/settings.h"
#include "common/text.h"
#include "tallybox_version.h"

#include <stdio.h>
#include <string.h>

#define PAGE_COLUMNS 80
#define WORD_SIZE 32
/* Aligns text to the left, because a line with a long list of names cannot be justified. */
#define ROFF_RAGGED ".ad l\n"
#define HELP_COLUMN 26 /* where the second column of an option list starts */

static const char about_program[] =
    "tallybox is a transactional outbox for MySQL and Kafka, with a retry queue and a pipeline for "
    "votes. An application writes an event into an outbox table in its own transaction, and the "
    "relay publishes it to Kafka.";

static const char sources_of_settings[] =
    "Settings come from the file, then from its section [role.NAME], then from the environment "
    "(TALLYBOX_SECTION_KEY), then from --set; the later one counts. `tallybox config --defaults` "
    "shows them all.";

static const struct {
    enum exit_code code;
    const char *meaning;
} exit_codes[] = {
    {EXIT_DONE, "It worked, and every check held."},
    {EXIT_FAILED, "It failed: a check failed, some lines were bad, or a server refused."},
    {EXIT_USAGE, "The command line or a setting is wrong; nothing was started."},
    {EXIT_UNAVAILABLE, "A database or broker could not be reached in time; try again."},
};

/* Prints words, wrapped at PAGE_COLUMNS. The first line starts at `column`, the others at
 * `indent`. */
static void put_wrapped(const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t len = strcspn(text, " \n");

        if (column > indent && column + 1 + len > PAGE_COLUMNS) {
            printf("\n%*s", (int)indent, "");
            column = indent;
        } else if (column > indent) {
            putchar(' ');
            column++;
        }
        printf("%.*s", (int)len, text);
        column += len;
        text += len;
        if (*text == '\n') {
            printf("\n%*s", (int)indent, "");
            column = indent;
            text++;
        }
        text += strspn(text, " ");
    }
    putchar('\n');
}

/* Prints two columns: the name and the help text. */
static void put_line(const char *name, const char *help)
{
    int width = printf("  %s", name);

    if (width > HELP_COLUMN - 2) {
        putchar('\n');
        width = 0;
    }
    printf("%*s", HELP_COLUMN - width, "");
    put_wrapped(help, HELP_COLUMN, HELP_COLUMN);
}

/* Prints a name and its explanation. */
typedef void (*put_pair)(const char *name, const char *help);

static void put_settings(const char *sections, put_pair put)
{
    if (list_has(sections, SETTINGS_KAFKA))
        put(SETTINGS_KAFKA ".*", "Any property of librdkafka. [" SETTINGS_KAFKA_SERVERS
                                 " = " SETTINGS_KAFKA_SERVERS_STANDARD "]");
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];
        char name[PAGE_COLUMNS];
        char help[512];

        if (!list_has(sections, setting->section))
            continue;
        snprintf(name, sizeof(name), "%s.%s", setting->section, setting->key);
        snprintf(help, sizeof(help), "%s [%s]", setting->help, setting->standard);
        put(name, help);
    }
}

static void put_entry(const struct option_entry *entry, put_pair put)
{
    char name[PAGE_COLUMNS];

    snprintf(name, sizeof(name), "--%s%s%s", entry->name, entry->metavar ? " " : "",
             entry->metavar ? entry->metavar : "");
    put(name, entry->help);
}

static void put_entries(const struct help_page *page, put_pair put)
{
    for (size_t i = 0; i < page->parse->count; i++)
        put_entry(&page->parse->entries[i], put);
    for (size_t i = 0; i < page->common_count; i++)
        put_entry(&page->common[i], put);
}

static void put_actions(const struct option_parse *parse, put_pair put)
{
    for (size_t i = 0; i < parse->action_count; i++) {
        const struct option_action *action = &parse->actions[i];
        char name[PAGE_COLUMNS];

        snprintf(name, sizeof(name), "%s%s%s", action->name, *action->arguments ? " " : "",
                 action->arguments);
        put(name, action->help);
    }
}

/* The first place at or behind `at` where a word stands that is not earlier in the list; NULL:
 * there is none. */
static const char *find_new_word(const char *list, const char *at)
{
    for (; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t len = strcspn(at, ",");
        const char *first = list;

        while (first < at && (strcspn(first, ",") != len || strncmp(first, at, len) != 0))
            first += strcspn(first, ",") + 1;
        if (first == at)
            return at;
    }
    return NULL;
}

/* "[mysql], [kafka] and [relay]" of "mysql,kafka,relay,mysql". */
static void put_section_names(const char *sections, char *out, size_t size)
{
    const char *at = find_new_word(sections, sections);
    size_t len = 0;

    for (bool first = true; at && len < size; first = false) {
        size_t word_len = strcspn(at, ",");
        const char *next = find_new_word(sections, at + word_len + (at[word_len] == ','));
        const char *between = first ? "" : next ? ", " : " and ";

        len += (size_t)snprintf(out + len, size - len, "%s[%.*s]", between, (int)word_len, at);
        at = next;
    }
}

static void put_settings_note(const struct option_parse *parse)
{
    char names[PAGE_COLUMNS * 2] = "";
    char note[PAGE_COLUMNS * 4];

    put_section_names(parse->sections, names, sizeof(names));
    snprintf(note, sizeof(note),
             "Settings: the command reads the sections %s. `%s --help=settings` lists them with "
             "their defaults.",
             names, parse->command);
    printf("\n");
    put_wrapped(note, 0, 0);
}

static void print_text(const struct help_page *page)
{
    const struct option_parse *parse = page->parse;

    printf("Usage: %s [OPTION]...%s%s\n\n", parse->command, *parse->arguments ? " " : "",
           parse->arguments);
    put_wrapped(parse->about, 0, 0);
    if (parse->action_count > 0) {
        printf("\nActions:\n");
        put_actions(parse, put_line);
    }
    printf("\nOptions:\n");
    put_entries(page, put_line);
    if (parse->sections)
        put_settings_note(parse);
    printf("\n");
    put_wrapped(sources_of_settings, 0, 0);
    if (parse->examples)
        printf("\n%s%s", parse->examples,
               parse->examples[strlen(parse->examples) - 1] == '\n' ? "" : "\n");
}

static void print_settings(const struct help_page *page)
{
    const struct option_parse *parse = page->parse;

    printf("Settings of %s, with their defaults:\n", parse->command);
    put_settings(parse->sections ? parse->sections : "mysql,log", put_line);
    printf("\n");
    put_wrapped(sources_of_settings, 0, 0);
}

static void put_roff(const char *text)
{
    bool line_begins = true;

    for (; *text; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            printf("\\&");
        if (*text == '\\')
            printf("\\e");
        else if (*text == '-')
            printf("\\-");
        else
            putchar(*text);
        line_begins = *text == '\n';
    }
}

static void put_roff_pair(const char *name, const char *help)
{
    printf(".TP\n.B ");
    put_roff(name);
    printf("\n");
    put_roff(help);
    printf("\n");
}

/* "tallybox retry list" is the page tallybox-retry-list. */
static void put_page_name(const char *command)
{
    for (; *command; command++)
        if (*command == ' ')
            printf("\\-");
        else
            putchar(*command);
}

static void put_upper(const char *text)
{
    for (; *text; text++)
        putchar(*text >= 'a' && *text <= 'z' ? *text - 'a' + 'A' : *text == ' ' ? '-' : *text);
}

/* Prints the first sentence without its full stop. */
static void put_roff_first_sentence(const char *text)
{
    char sentence[256];
    const char *stop = strstr(text, ". ");
    size_t len = stop ? (size_t)(stop - text) : strcspn(text, "\n");

    snprintf(sentence, sizeof(sentence), "%.*s", (int)len, text);
    len = strlen(sentence);
    if (len > 0 && sentence[len - 1] == '.')
        sentence[len - 1] = '\0';
    put_roff(sentence);
}

static void put_exit_status(void)
{
    printf(".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof(exit_codes) / sizeof(exit_codes[0]); i++) {
        char code[16];

        snprintf(code, sizeof(code), "%d", (int)exit_codes[i].code);
        put_roff_pair(code, exit_codes[i].meaning);
    }
}

static void print_man(const struct help_page *page)
{
    const struct option_parse *parse = page->parse;

    printf(".TH ");
    put_upper(parse->command);
    printf(" 1 \"\" \"tallybox " TALLYBOX_VERSION "\" \"User Commands\"\n" ROFF_RAGGED
           ".SH NAME\n");
    put_page_name(parse->command);
    printf(" \\- ");
    put_roff_first_sentence(parse->about);
    printf("\n.SH SYNOPSIS\n.B %s\n[OPTION]... %s\n.SH DESCRIPTION\n", parse->command,
           parse->arguments);
    put_roff(parse->about);
    printf("\n");
    if (parse->action_count > 0) {
        printf(".SH ACTIONS\n");
        put_actions(parse, put_roff_pair);
    }
    printf(".SH OPTIONS\n");
    put_entries(page, put_roff_pair);
    if (parse->sections) {
        printf(".SH SETTINGS\nWith their defaults:\n");
        put_settings(parse->sections, put_roff_pair);
    }
    printf(".PP\n");
    put_roff(sources_of_settings);
    printf("\n");
    put_exit_status();
    if (parse->examples) {
        printf(".SH NOTES\n.nf\n");
        put_roff(parse->examples);
        printf("\n.fi\n");
    }
    printf(".SH SEE ALSO\n.BR tallybox (1)\n");
}

/* Prints the first word of each action, once: "scene" for "scene list" and "scene set". */
static void put_action_words(const struct option_parse *parse)
{
    for (size_t i = 0; i < parse->action_count; i++) {
        const char *name = parse->actions[i].name;
        size_t len = strcspn(name, " ");
        size_t j = 0;

        while (j < i && (strncmp(parse->actions[j].name, name, len) != 0 ||
                         strcspn(parse->actions[j].name, " ") != len))
            j++;
        if (j == i)
            printf("%.*s ", (int)len, name);
    }
}

/* "scene:list scene:set" of the actions "scene list" and "scene set". */
static void put_second_words(const struct option_parse *parse)
{
    for (size_t i = 0; i < parse->action_count; i++) {
        const char *name = parse->actions[i].name;
        size_t len = strcspn(name, " ");

        if (name[len])
            printf(" %.*s:%s", (int)len, name, name + len + 1);
    }
}

static void put_values(const struct option_entry *entry)
{
    for (const char *at = entry->values; at && *at; at += strspn(at, " ")) {
        size_t len = strcspn(at, " ");

        printf(" --%s:%.*s", entry->name, (int)len, at);
        at += len;
    }
}

static void print_words(const struct help_page *page)
{
    const struct option_parse *parse = page->parse;

    put_action_words(parse);
    for (size_t i = 0; i < parse->count; i++)
        printf("--%s ", parse->entries[i].name);
    for (size_t i = 0; i < page->common_count; i++)
        printf("--%s ", page->common[i].name);
    printf("|");
    for (size_t i = 0; i < parse->count; i++)
        if (parse->entries[i].metavar)
            printf(" --%s", parse->entries[i].name);
    for (size_t i = 0; i < page->common_count; i++)
        if (page->common[i].metavar)
            printf(" --%s", page->common[i].name);
    printf(" |");
    put_second_words(parse);
    for (size_t i = 0; i < parse->count; i++)
        put_values(&parse->entries[i]);
    printf("\n");
}

void help_page_print(const struct help_page *page, enum help_form form)
{
    switch (form) {
    case HELP_MAN:
        print_man(page);
        break;
    case HELP_WORDS:
        print_words(page);
        break;
    case HELP_SETTINGS:
        print_settings(page);
        break;
    case HELP_TEXT:
        print_text(page);
        break;
    }
}

/* Runs --help=FORM of an action of the command, or of the command itself if action is NULL. */
static void run_help(const struct command *command, const char *action, const char *form)
{
    char name[WORD_SIZE];
    char word[WORD_SIZE];
    char option[WORD_SIZE];

    snprintf(name, sizeof(name), "%s", command->name);
    snprintf(word, sizeof(word), "%s", action ? action : "");
    snprintf(option, sizeof(option), "--help=%s", form);
    if (action)
        command->run(3, (char *[]){name, word, option, NULL});
    else
        command->run(2, (char *[]){name, option, NULL});
}

static void put_overview(const struct command *commands, size_t count)
{
    printf(".TH TALLYBOX 1 \"\" \"tallybox " TALLYBOX_VERSION "\" \"User Commands\"\n" ROFF_RAGGED
           ".SH NAME\ntallybox \\- transactional outbox, retry queue and vote pipeline\n"
           ".SH SYNOPSIS\n.B tallybox\nCOMMAND [OPTION]...\n.SH DESCRIPTION\n");
    put_roff(about_program);
    printf("\n.SH COMMANDS\n");
    for (size_t i = 0; i < count; i++) {
        printf(".TP\n.B %s\n", commands[i].name);
        put_roff(commands[i].summary);
        printf("\n");
    }
    printf(".SH SEE ALSO\n");
    for (size_t i = 0; i < count; i++)
        if (commands[i].run)
            printf(".BR tallybox\\-%s (1)\n", commands[i].name);
}

void help_page_print_man(const struct command *commands, size_t count, const char *topic)
{
    for (size_t i = 0; topic && i < count; i++) {
        if (strcmp(commands[i].name, topic) == 0 && commands[i].run) {
            run_help(&commands[i], NULL, "man");
            return;
        }
    }
    put_overview(commands, count);
}

static void put_names(const struct command *commands, size_t count)
{
    for (size_t i = 0; i < count; i++)
        printf("%s%s", i > 0 ? " " : "", commands[i].name);
}

static void put_setting_names(void)
{
    for (size_t i = 0; i < settings_table_count; i++) {
        const struct setting *setting = &settings_table[i];

        if (strcmp(setting->section, SETTINGS_LANE) != 0)
            printf("%s.%s= ", setting->section, setting->key);
    }
}

/* A branch of the script that sets the words to offer after a command. */
static void put_command_words(const struct command *command)
{
    printf("    %s)\n        line=\"\\\n", command->name);
    run_help(command, NULL, "words");
    printf("\"\n");
    if (command->action) {
        /* The second word may still be written. */
        printf("        case $COMP_CWORD:${COMP_WORDS[2]} in 2:* | *: | *:-*) ;; *) line=\"\\\n");
        run_help(command, command->action, "words");
        printf("\" ;; esac\n");
    }
    printf("        ;;\n");
}

void help_page_print_completion(const struct command *commands, size_t count, bool zsh)
{
    if (zsh)
        printf("#compdef tallybox\nautoload -U +X bashcompinit && bashcompinit\n");
    printf("# Generated by `tallybox completion`.\n"
           "_tallybox() {\n"
           "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} line=\n"
           "    COMPREPLY=()\n"
           "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
           "        COMPREPLY=($(compgen -W \"");
    put_names(commands, count);
    printf("\" -- \"$word\"))\n"
           "        return\n"
           "    fi\n"
           "    if [ \"$before\" = --set ]; then\n"
           "        COMPREPLY=($(compgen -W \"");
    put_setting_names();
    /* The value follows without a blank. zsh does not know compopt. */
    printf("\" -- \"$word\"))\n"
           "        compopt -o nospace 2>/dev/null || :\n"
           "        return\n"
           "    fi\n"
           "    case ${COMP_WORDS[1]} in\n"
           "    help | man) line=\"");
    put_names(commands, count);
    printf("||\" ;;\n    completion) line=\"bash zsh||\" ;;\n");
    for (size_t i = 0; i < count; i++)
        if (commands[i].run)
            put_command_words(&commands[i]);
    /* An option that takes a value gets the shell's own completion, which is for files. */
    printf("    esac\n"
           "    line=${line//$'\\n'/ }\n"
           "    COMPREPLY=($(compgen -W \"${line##*|}\" -- \"$before:$word\"))\n"
           "    COMPREPLY=(\"${COMPREPLY[@]#\"$before:\"}\")\n"
           "    case \" ${line##*|}\" in *\" $before:\"*) return ;; esac\n"
           "    line=${line%%|*}\n"
           "    case \" ${line##*|} \" in *\" $before \"*) return ;; esac\n"
           "    COMPREPLY=($(compgen -W \"${line%%|*}\" -- \"$word\"))\n"
           "}\n"
           "complete -o default -F _tallybox tallybox\n");
}
