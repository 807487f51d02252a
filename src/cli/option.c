#include "cli/command.h"
#include "cli/report.h"

#include "base/text.h"
#include "spec/result.h"

#include <stdio.h>
#include <string.h>

static void explain_unknown(struct option_parser *parser, const struct command *command, const char *given)
{
    struct text_guess guess = {.given = given};
    for (size_t i = 0; i < command->option_count; i++)
        text_guess_offer(&guess, command->options[i].name);
    const char *nearest = guess.nearest;
    snprintf(parser->message, sizeof parser->message, "there is no option --%s%s%s%s; see `cloche %s --help`",
             given, nearest ? " (did you mean --" : "", nearest ? nearest : "", nearest ? "?)" : "",
             command->name);
}

static enum option_kind take_value(struct option_parser *parser, const struct option_row *row,
                                   const char *attached, const char **ret_value)
{
    *ret_value = attached;
    if (!row->argument && attached) {
        snprintf(parser->message, sizeof parser->message, "--%s takes no value", row->name);
        return OPTION_WRONG;
    }
    if (row->argument && !attached) {
        if (parser->at >= parser->argc) {
            snprintf(parser->message, sizeof parser->message, "--%s needs a value: %s", row->name,
                     row->argument);
            return OPTION_WRONG;
        }
        *ret_value = parser->argv[parser->at++];
    }
    return OPTION_ROW;
}

static enum option_kind take_long(struct option_parser *parser, const struct command *command,
                                  const char *text, const struct option_row **ret_row, const char **ret_value)
{
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_row *row = &command->options[i];
        if (strlen(row->name) == length && strncmp(row->name, text, length) == 0) {
            *ret_row = row;
            return take_value(parser, row, text[length] ? text + length + 1 : NULL, ret_value);
        }
    }
    char given[64];
    snprintf(given, sizeof given, "%.*s", (int)length, text);
    explain_unknown(parser, command, given);
    return OPTION_WRONG;
}

static enum option_kind take_letter(struct option_parser *parser, const struct command *command,
                                    const struct option_row **ret_row, const char **ret_value)
{
    char letter = *parser->letters++;
    const char *rest = *parser->letters ? parser->letters : NULL;
    parser->letters = rest;
    for (size_t i = 0; i < command->option_count; i++) {
        const struct option_row *row = &command->options[i];
        if (row->letter != letter)
            continue;
        *ret_row = row;
        if (!row->argument) {
            *ret_value = NULL;
            return OPTION_ROW;
        }
        parser->letters = NULL;
        return take_value(parser, row, rest, ret_value);
    }
    snprintf(parser->message, sizeof parser->message, "there is no option -%c%s; see `cloche %s --help`",
             letter, letter >= '0' && letter <= '9' ? " (a number below zero comes after --)" : "",
             command->name);
    return OPTION_WRONG;
}

enum option_kind option_next(struct option_parser *parser, const struct command *command,
                             const struct option_row **ret_row, const char **ret_value)
{
    if (parser->letters)
        return take_letter(parser, command, ret_row, ret_value);
    if (parser->at >= parser->argc)
        return OPTION_END;
    const char *text = parser->argv[parser->at++];
    if (strcmp(text, "--") == 0)
        return OPTION_REST;
    if (strncmp(text, "--", 2) == 0)
        return take_long(parser, command, text + 2, ret_row, ret_value);
    if (text[0] == '-' && text[1]) {
        parser->letters = text + 1;
        return take_letter(parser, command, ret_row, ret_value);
    }
    *ret_value = text;
    return OPTION_POSITIONAL;
}

int option_each(int argc, char **argv, const struct command *command, option_take take, void *into,
                struct error *err)
{
    struct option_parser parser = {.argc = argc, .argv = argv, .at = 1};
    const struct option_row *row;
    const char *value = NULL;
    int status = 0;
    for (enum option_kind kind;
         status == 0 && (kind = option_next(&parser, command, &row, &value)) != OPTION_END;) {
        if (kind == OPTION_WRONG)
            return error_spec(err, "option", "%s", parser.message);
        if (kind != OPTION_ROW)
            return error_spec(err, "option", "`cloche %s` takes options only, not '%.64s'", command->name,
                              kind == OPTION_REST ? "--" : value);
        status = take(into, row, value, err);
    }
    return status;
}

int option_refuse(const struct option_parser *parser, const struct command *command)
{
    if (parser->message[0])
        report_error("%s: %s", command->name, parser->message);
    else
        report_error("%s: '%.64s' was not expected; see `cloche %s --help`", command->name,
                     parser->at > 0 ? parser->argv[parser->at - 1] : "", command->name);
    return EXIT_STATUS_BAD_SPEC;
}
