"""What may be refused, but must not be wrong."""


def result_or_reason(function, *arguments):
    """What a function returns, or the text of its ValueError."""
    try:
        return function(*arguments)
    except ValueError as error:
        return str(error)
