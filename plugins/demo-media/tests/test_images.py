"""Pictures that are made and edited: every file is opened again and looked at."""

from __future__ import annotations

from io import BytesIO

import pytest
from PIL import Image, ImageChops, ImageDraw

from tornado_gate_demo_media.image_orders import EditOrder, ImageOrder, OutputOptions
from tornado_gate_demo_media.images import compute_size, edit_image, make_image, parse_size
from tornado_gate_demo_media.lettering import MAX_CHARACTERS, choose_font, draw_text, fit_text, wrap
from tornado_gate_local.errors import InvalidArgument

PROMPT = "A quiet lake between mountains at dawn"


def opened(picture) -> Image.Image:
    image = Image.open(BytesIO(picture.data))
    image.load()
    return image


def file_of(image: Image.Image, kind: str = "PNG") -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def photo(size=(120, 80)) -> Image.Image:
    """A picture with something to recognise: four fields of colour."""
    image = Image.new("RGB", size, (200, 30, 40))
    draw = ImageDraw.Draw(image)
    width, height = size
    draw.rectangle((width // 2, 0, width, height // 2), fill=(30, 180, 60))
    draw.rectangle((0, height // 2, width // 2, height), fill=(20, 60, 200))
    return image


def differing(one: Image.Image, other: Image.Image):
    """The box of the pixels that differ, None when none does."""
    return ImageChops.difference(one.convert("RGBA"), other.convert("RGBA")).getbbox(alpha_only=False)


def edited(instruction: str, image: Image.Image | None = None, **rest) -> Image.Image:
    image = image or photo()
    return opened(edit_image(EditOrder(instruction=instruction, images=(file_of(image),), **rest)))


@pytest.mark.parametrize("kind", ["png", "webp", "jpeg"])
@pytest.mark.parametrize(("width", "height"), [(256, 256), (1_536, 1_024), (1_024, 1_792), (16, 16), (33, 501)])
def test_a_picture_has_the_size_and_the_format_that_were_asked_for(width, height, kind):
    picture = make_image(ImageOrder(prompt=PROMPT, width=width, height=height, finish=OutputOptions(format=kind)))
    image = opened(picture)
    assert image.size == (width, height) == (picture.width, picture.height)
    assert image.format == kind.upper()
    assert image.mode == "RGB"
    assert picture.media_type == f"image/{kind}"


def test_the_largest_picture_can_be_made():
    assert opened(make_image(ImageOrder(prompt=PROMPT, width=4_096, height=4_096))).size == (4_096, 4_096)


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_a_transparent_background_is_transparent_around_something_that_is_not(kind):
    finish = OutputOptions(format=kind, background="transparent")
    image = opened(make_image(ImageOrder(prompt=PROMPT, width=400, height=300, finish=finish)))
    assert image.mode == "RGBA"
    alpha = image.getchannel("A")
    assert [alpha.getpixel(corner) for corner in [(0, 0), (399, 0), (0, 299), (399, 299)]] == [0, 0, 0, 0]
    assert alpha.getextrema() == (0, 255)


def test_the_same_prompt_gives_the_same_picture_and_another_one_or_variant_another():
    first = make_image(ImageOrder(prompt=PROMPT, width=128, height=128))
    assert make_image(ImageOrder(prompt=PROMPT, width=128, height=128)) == first
    assert make_image(ImageOrder(prompt=PROMPT + "!", width=128, height=128)).data != first.data
    assert make_image(ImageOrder(prompt=PROMPT, width=128, height=128, variant=1)).data != first.data


def test_a_colour_that_the_prompt_names_is_the_colour_of_the_picture():
    image = opened(make_image(ImageOrder(prompt="something blue", width=200, height=200)))
    red, green, blue = image.getpixel((0, 0))
    assert blue > 200
    assert max(red, green) < 60


def test_the_words_are_drawn_in_white_on_dark_in_the_middle():
    image = opened(make_image(ImageOrder(prompt=PROMPT, width=512, height=512)))
    middle = image.convert("L").crop((80, 110, 432, 402))
    assert middle.getextrema()[1] == 255
    counts = middle.histogram()
    assert sum(counts[245:]) > 1_000  # letters
    assert sum(counts[:140]) > 20_000  # the panel


def test_other_words_on_the_same_ground_change_the_panel_alone():
    ground = Image.new("RGB", (300, 300), "teal")
    one, other = ground.copy(), ground.copy()
    box = (50, 50, 250, 250)
    places = [draw_text(one, "first words", box), draw_text(other, "second words here", box)]
    left, top, right, bottom = differing(one, other)
    assert left >= min(place[0] for place in places)
    assert top >= min(place[1] for place in places)
    assert right <= max(place[2] for place in places) + 1
    assert bottom <= max(place[3] for place in places) + 1


@pytest.mark.parametrize("text", [PROMPT, "Donaudampfschifffahrtsgesellschaft " * 3, "a", "one\ntwo\n\nthree"])
@pytest.mark.parametrize(("width", "height"), [(800, 400), (300, 300), (120, 240)])
def test_lettering_fits_its_field_and_keeps_every_letter(text, width, height):
    setting = fit_text(text, width, height)
    assert setting.height <= height
    assert max(setting.font.getlength(line) for line in setting.lines) <= width
    assert "".join("".join(setting.lines).split()) == "".join(text.split())


def test_a_text_that_is_too_long_is_cut_short_with_a_sign_of_it():
    setting = fit_text("word " * 1_000, 200, 60)
    assert setting.lines[-1].endswith("…")
    assert setting.height <= 60
    assert max(setting.font.getlength(line) for line in setting.lines) <= 200


def test_lettering_is_as_large_as_the_field_lets_it_be():
    assert fit_text(PROMPT, 800, 400).size > fit_text(PROMPT, 300, 150).size > fit_text(PROMPT * 5, 300, 150).size


def test_lines_break_between_words():
    font = choose_font(PROMPT, 20)
    assert all(line in PROMPT for line in wrap(PROMPT, font, 150))
    assert " ".join(wrap(PROMPT, font, 150)) == PROMPT


@pytest.mark.parametrize("prompt", ["", "   ", "Привет, мир", "日本の山", "\ud83d broken", "🦊" * 20, "x" * 32_000])
def test_any_prompt_gives_a_picture(prompt):
    assert opened(make_image(ImageOrder(prompt=prompt, width=200, height=100))).size == (200, 100)
    assert len("".join(fit_text(prompt, 100, 100).lines)) <= MAX_CHARACTERS


def test_less_quality_makes_a_smaller_file():
    sizes = [
        len(make_image(ImageOrder(prompt=PROMPT, finish=OutputOptions(format="jpeg", compression=quality))).data)
        for quality in (10, 90)
    ]
    assert sizes[0] < sizes[1] / 1.5


def test_a_watermark_is_in_the_lower_right_corner_and_nowhere_else():
    plain = opened(make_image(ImageOrder(prompt=PROMPT, width=400, height=400)))
    marked = opened(make_image(ImageOrder(prompt=PROMPT, width=400, height=400, finish=OutputOptions(watermark=True))))
    left, top, _, _ = differing(plain, marked)
    assert left >= 300
    assert top >= 370


@pytest.mark.parametrize(
    ("order", "param"),
    [
        (ImageOrder(prompt="x", width=15), "width"),
        (ImageOrder(prompt="x", height=4_097), "height"),
        (ImageOrder(prompt="x", finish=OutputOptions(format="gif")), "format"),
        (ImageOrder(prompt="x", finish=OutputOptions(background="glass")), "background"),
        (ImageOrder(prompt="x", finish=OutputOptions(background="transparent", format="jpeg")), "background"),
        (ImageOrder(prompt="x", finish=OutputOptions(compression=101)), "compression"),
    ],
)
def test_an_order_that_cannot_be_met_is_refused_by_name(order, param):
    with pytest.raises(InvalidArgument) as refused:
        make_image(order)
    assert refused.value.param == param


@pytest.mark.parametrize(
    ("text", "size"), [("1024x1536", (1_024, 1_536)), ("1024*768", (1_024, 768)), ("16x16", (16, 16))]
)
def test_sizes_are_read_in_both_spellings(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["auto", "1024", "x", "-1x5", "0x0", "9999x9999", "1024x1024x3", "١٠٢٤x1024", "1e3x5"])
def test_what_is_no_size_is_refused(text):
    with pytest.raises(InvalidArgument) as refused:
        parse_size(text)
    assert refused.value.param == "size"


@pytest.mark.parametrize("ratio", ["1:1", "16:9", "9:16", "21:9", "2:3", "8:1"])
@pytest.mark.parametrize("label", ["1K", "2K", "4K", "1k"])
def test_a_ratio_and_a_label_give_a_size_of_that_shape_within_the_bounds(ratio, label):
    width, height = compute_size(ratio, label)
    wide, high = map(int, ratio.split(":"))
    assert width / height == pytest.approx(wide / high, rel=0.08)
    assert max(width, height) <= 4_096
    assert width % 32 == height % 32 == 0


@pytest.mark.parametrize(
    ("ratio", "label"), [("0:1", "1K"), ("16/9", "1K"), ("100:1", "1K"), ("1:1", "8K"), ("", "1K")]
)
def test_what_is_no_ratio_or_label_is_refused(ratio, label):
    with pytest.raises(InvalidArgument):
        compute_size(ratio, label)


def test_an_edit_without_known_words_keeps_the_picture_and_shows_the_instruction():
    result = edited("Add a castle", photo((400, 300)))
    assert result.size == (400, 300)
    original = photo((400, 300))
    assert differing(result, original) == (0, 0, 400, 300)  # tint and frame reach the edges
    top_left, top_right = result.getpixel((60, 60)), result.getpixel((340, 60))
    assert top_left[0] > top_left[1]  # what was red is still more red than green
    assert top_right[1] > top_right[0]
    assert result.convert("L").crop((20, 228, 380, 285)).getextrema()[1] > 240  # the caption


def test_grey_means_grey():
    red, green, blue = edited("Make it grayscale").getpixel((5, 5))
    assert red == green == blue


def test_dark_is_darker_and_bright_is_brighter():
    before = photo().getpixel((5, 5))[0]
    assert edited("a dark night").getpixel((5, 5))[0] < before < edited("brighter, please").getpixel((5, 5))[0]


def test_mirrored_is_mirrored_and_flipped_is_upside_down():
    assert edited("mirror it").getpixel((5, 5)) == photo().getpixel((114, 5))
    assert edited("turn it upside down").getpixel((5, 5)) == photo().getpixel((5, 74))


def test_a_named_colour_tints():
    red, _, blue = edited("make everything blue").getpixel((5, 5))
    assert blue > red


@pytest.mark.parametrize(
    "words", ["sepia", "blur it", "sharpen", "invert the colours", "a pencil sketch", "a cartoon", "vintage", "gold"]
)
def test_every_known_word_changes_the_picture_and_keeps_its_size(words):
    original = photo()
    result = edited(words, original)
    assert result.size == original.size
    assert differing(result, original) is not None


def test_removing_the_background_makes_the_colour_of_the_corner_transparent():
    result = edited("Remove the background")
    assert result.mode == "RGBA"
    assert result.getpixel((5, 5))[3] == 0
    assert result.getpixel((100, 10)) == (30, 180, 60, 255)


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_a_transparent_background_may_be_asked_for_in_an_edit(kind):
    result = edited("brighter", finish=OutputOptions(background="transparent", format=kind))
    assert result.getpixel((5, 5))[3] == 0
    assert result.getpixel((100, 10))[3] == 255


def cut_mask(box, size=(120, 80)) -> bytes:
    """Opaque but for the box."""
    mask = Image.new("RGBA", size, (0, 0, 0, 255))
    mask.paste((0, 0, 0, 0), box)
    return file_of(mask)


def painted_mask(box, size=(120, 80)) -> bytes:
    """Black but for the box, without any transparency."""
    mask = Image.new("RGB", size, "black")
    mask.paste("white", box)
    return file_of(mask)


@pytest.mark.parametrize("make", [cut_mask, painted_mask])
@pytest.mark.parametrize("words", ["Add a castle", "grayscale", "turn it upside down", "remove the background"])
def test_only_what_the_mask_opens_changes(make, words):
    box = (20, 10, 70, 60)
    changed = differing(edited(words, mask=make(box)), photo())
    assert changed is not None
    assert changed[0] >= 20
    assert changed[1] >= 10
    assert changed[2] <= 70
    assert changed[3] <= 60


@pytest.mark.parametrize(
    "mask", [cut_mask((0, 0, 5, 5), (60, 60)), cut_mask((0, 0, 0, 0)), painted_mask((0, 0, 0, 0)), b"no picture"]
)
def test_a_mask_that_fits_nothing_is_refused(mask):
    with pytest.raises(InvalidArgument) as refused:
        edited("x", mask=mask)
    assert refused.value.param == "mask"


@pytest.mark.parametrize("size", [(64, 64), (400, 100), (100, 400), (240, 160)])
def test_an_edit_of_another_size_shows_the_whole_picture_in_it(size):
    result = edited("grayscale", size=size)
    assert result.size == size
    assert result.mode == "RGB"


def test_transparency_of_the_input_is_kept_where_the_format_has_it():
    image = photo().convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, 30, 30))
    assert edited("grayscale", image).getpixel((5, 5))[3] == 0
    assert edited("mirror", image).getpixel((115, 5))[3] == 0
    assert edited("grayscale", image, finish=OutputOptions(background="opaque")).getpixel((5, 5)) == (255, 255, 255)
    assert min(edited("grayscale", image, finish=OutputOptions(format="jpeg")).getpixel((5, 5))) > 240


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP"])
def test_pictures_of_the_usual_formats_are_read(kind):
    order = EditOrder(instruction="grayscale", images=(file_of(photo(), kind),))
    assert opened(edit_image(order)).size == (120, 80)


def test_other_pictures_are_shown_in_the_first():
    others = (file_of(Image.new("RGB", (50, 50), "yellow")),) * 2
    result = opened(edit_image(EditOrder(instruction="grayscale", images=(file_of(photo()), *others))))
    yellow = [pixel for pixel in result.get_flattened_data() if pixel == (255, 255, 0)]
    assert len(yellow) > 500


def test_a_photo_that_lies_on_its_side_is_turned():
    image, buffer = photo(), BytesIO()
    exif = image.getexif()
    exif[0x0112] = 6
    image.save(buffer, "JPEG", exif=exif)
    assert opened(edit_image(EditOrder(instruction="grayscale", images=(buffer.getvalue(),)))).size == (80, 120)


def test_damaged_and_foreign_files_are_refused_by_place():
    good = file_of(photo())
    for bad in (b"", b"GIF89a", b"<svg/>", good[:200], file_of(photo(), "TIFF")):
        with pytest.raises(InvalidArgument) as refused:
            edit_image(EditOrder(instruction="x", images=(good, bad)))
        assert refused.value.param == "images.1"


def test_a_picture_of_too_many_pixels_is_refused_before_it_is_unpacked():
    bomb = file_of(Image.new("1", (9_000, 8_000)))
    assert len(bomb) < 100_000
    with pytest.raises(InvalidArgument, match="pixels"):
        edit_image(EditOrder(instruction="x", images=(bomb,)))


@pytest.mark.parametrize("count", [0, 17])
def test_no_pictures_and_too_many_are_refused(count):
    with pytest.raises(InvalidArgument) as refused:
        edit_image(EditOrder(instruction="x", images=(file_of(photo()),) * count))
    assert refused.value.param == "images"


def test_an_edit_has_the_mark_when_it_is_asked_for():
    plain = edited("grayscale", photo((400, 400)))
    marked = edited("grayscale", photo((400, 400)), finish=OutputOptions(watermark=True))
    assert differing(plain, marked)[0] >= 300
